"""Numbers that stand for "never": -inf, the smallest float, -1e9. Beside them a range has no levels
left for anything else."""

from __future__ import annotations

from torch import Tensor

from ..backend.chains import Chain
from ..backend.constants import constant_of

# A number of at least this size is one if whatever is smaller is smaller by far.
LEAST_SENTINEL = 1e4
_BY_FAR = 1e-3


def sentinel_in(x: Tensor) -> float | None:
    """A sentinel among the values of a tensor; None if it has none, or nothing else."""
    if x.numel() == 0 or not x.is_floating_point():
        return None
    magnitude = x.abs()
    if not bool(magnitude.max() >= LEAST_SENTINEL):
        return None
    far = magnitude >= LEAST_SENTINEL
    rest = magnitude[~far]
    if rest.numel() == 0 or bool(rest.max() > magnitude[far].min() * _BY_FAR):
        return None
    value: float = x[far].flatten()[0].item()
    return value


def sentinel_of(chain: Chain) -> float | None:
    """A sentinel that a call brings in, as padding or in a constant operand."""
    brought = chain.op.brings_in(chain.root)
    if abs(brought) >= LEAST_SENTINEL:
        return brought
    constants = map(constant_of, chain.op.activations(chain.root))
    found = (None if constant is None else sentinel_in(constant) for constant in constants)
    return next((value for value in found if value is not None), None)


def brings_in(sentinel: float) -> str:
    """The reason why a call stays in float."""
    return (
        f"it brings in {sentinel:.3g}, beside which no int8 range has levels for other numbers, "
        "and what reads the result reads it whole"
    )
