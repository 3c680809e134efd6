"""The op table: what the VPU can run, one `VpuOp` per family of ATen overloads.

Quantizer, partitioner, report, preprocess, the op-support page and the conformance tests
are engines over `VPU_OPS`. To add an op, add a file to `backend/ops/` (see docs/add-an-op.md); code
outside the package calls `register`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from torch._ops import OpOverload
from torch.fx import Node

from .arguments import arguments
from .namespace import aten_target
from .numerics import QParams

if TYPE_CHECKING:
    from .builder import ProgramBuilder
    from .units import Unit


class OutputRange(Enum):
    """How the quantizer chooses the parameters of an op's output."""

    OWN = "its own observed range"
    SHARED = "its first input's parameters"
    FIXED = "fixed parameters"


class Link(Enum):
    """What may follow a root inside its unit, in this order, with no quantization in between."""

    BATCH_NORM = "batch_norm"
    ADD = "add"
    ACTIVATION = "activation"


@dataclass(frozen=True)
class Reads:
    """Which values of an operand an op's int8 output tells apart: what lies beyond them gives the
    same as the bound, so that a range need not hold it. Real values.

    Attributes:
        low, high: the bounds.
        dim, depth: if given, a value matters only down to `depth` below the largest along `dim`.
    """

    low: float = -math.inf
    high: float = math.inf
    dim: int | None = None
    depth: float = math.inf


EVERYTHING = Reads()


class VpuOp(ABC):
    """One op family. Subclasses are written in `backend/ops/`, registered with `@register`.

    Class attributes:
        name: the family, as documentation and the report show it.
        targets: every ATen overload covered: functional, in-place, aliases.
        output_range: how the output is quantized; `fixed` holds the parameters for FIXED. A
            SHARED op reads its operand with `builder.shared_input`.
        links: what may be fused after this op when it is a unit's root.
        link: what this op is when it is fused itself; None if it is always a root.
        data_movement: True if it computes nothing: never worth a subgraph of its own.
        joins: True if its result is its operands side by side, brought to one scale.
        takes_largest: True if of a group of its operand's values only the largest matters.
        transparent: True if its result is its input: a unit's ops may have it between them.
    """

    name: ClassVar[str]
    targets: ClassVar[tuple[OpOverload, ...]]
    output_range: ClassVar[OutputRange] = OutputRange.OWN
    fixed: ClassVar[QParams | None] = None
    links: ClassVar[tuple[Link, ...]] = ()
    link: ClassVar[Link | None] = None
    data_movement: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    takes_largest: ClassVar[bool] = False
    transparent: ClassVar[bool] = False

    def activations(self, node: Node) -> list[Node]:
        """The tensors quantized int8 per tensor, in the instruction's order."""
        return [arguments(node).input]

    def weight(self, node: Node) -> Node | None:
        """The tensor quantized int8 per output channel, if the op is weighted."""
        return None

    def bias(self, node: Node) -> Node | None:
        """The float bias of a weighted op."""
        return None

    def check(self, node: Node) -> str | None:
        """None if the VPU runs this call; else why not: attribute, value and limit, in words.

        Looks at attributes and shapes only, so it answers the same before and after quantization.
        Sizes may be dynamic before: `size_of` and `rank_of` give what is known.

        Raises:
            ValueError: it depends on a size that is not known ahead.
        """
        return None

    def check_unit(self, unit: Unit) -> str | None:
        """Like `check`, for what only the quantized graph tells (parameters, constants)."""
        return None

    def moves_data(self, node: Node) -> bool:
        """Whether this call computes nothing."""
        return self.data_movement

    def reads(self, node: Node) -> Reads:
        """Which of its operand's values a call with one activation operand tells apart."""
        return EVERYTHING

    def factor(self, node: Node) -> float | None:
        """The positive number a call with one activation operand multiplies it by, if that, or
        adding a number, is all it does."""
        return None

    def signs(self, node: Node) -> tuple[int, int] | None:
        """(1, 1) if the call adds its two activation operands, (1, -1) if it subtracts them."""
        return None

    def brings_in(self, node: Node) -> float:
        """A number of its own that a call puts among its operand's values: padding."""
        return 0.0

    def can_follow(self, node: Node, producer: Node) -> bool:
        """Whether `node`, of a family with a `link`, can be fused behind `producer`."""
        return False

    def clamp(self, node: Node) -> tuple[float, float] | None:
        """The (low, high) a fused activation clamps to, in real values; None if it is no clamp."""
        return None

    @abstractmethod
    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        """Emits the unit's instructions and defines the tensor of its output."""


class OpTable(Mapping[OpOverload, VpuOp]):
    """ATen overload -> VpuOp. Iterates over overloads; `subset` makes a smaller VPU."""

    def __init__(self, entries: Mapping[OpOverload, VpuOp] | None = None) -> None:
        self._entries = dict(entries or {})

    def __getitem__(self, target: OpOverload) -> VpuOp:
        return self._entries[target]

    def __iter__(self) -> Iterator[OpOverload]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, node: Node) -> VpuOp | None:
        """The family a node's call belongs to, on an ATen or an edge graph."""
        target = aten_target(node)
        return None if target is None else self._entries.get(target)

    def families(self) -> list[VpuOp]:
        """Each family once, in the order of registration."""
        return list(dict.fromkeys(self._entries.values()))

    def subset(self, ops: Iterable[OpOverload] | None) -> OpTable:
        """The table cut to `ops`; None means all of it.

        Raises:
            ValueError: an entry is no overload of this table.
        """
        if ops is None or ops is self:
            return self
        chosen = list(ops)
        unknown = [str(op) for op in chosen if op not in self._entries]
        if unknown:
            raise ValueError(
                f"not in the op table: {', '.join(unknown)}. `ops` takes ATen overloads such as "
                "torch.ops.aten.conv2d.default; VPU_OPS lists them all."
            )
        return OpTable({op: self._entries[op] for op in chosen})

    def add(self, op: VpuOp) -> None:
        taken = [str(t) for t in op.targets if t in self._entries]
        if taken:
            raise ValueError(f"{op.name}: already in the op table: {', '.join(taken)}")
        self._entries.update(dict.fromkeys(op.targets, op))


VPU_OPS = OpTable()


def register(cls: type[VpuOp]) -> type[VpuOp]:
    """Class decorator: adds an op family to VPU_OPS."""
    VPU_OPS.add(cls())
    return cls
