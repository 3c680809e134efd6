"""Ranges of a Q/DQ graph that are of little use to int8, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ..backend.naming import name_of
from ..backend.numerics import QParams
from ..backend.units import (
    FEWEST_LEVELS,
    LEAST_OBSERVED_SCALE,
    MAX_SCALE,
    is_quantize,
    qparams,
    source_of,
)
from .plan import Plan

_NAMES_SHOWN = 5
# What torchao's observers give for a tensor that they have never seen.
_NEVER_OBSERVED = QParams(1.0, 0)


def range_warnings(plan: Plan) -> Iterator[str]:
    """A sentence for every kind of range that was not measured, or that int8 can hardly hold."""
    named: dict[str, dict[str, None]] = {}
    for node in plan.graph.nodes:
        problem = _problem(qparams(node)) if is_quantize(node) else None
        if problem is not None:
            named.setdefault(problem, {})[name_of(source_of(node))] = None
    for problem, names in named.items():
        shown = list(names)[:_NAMES_SHOWN]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        yield f"{', '.join(shown)}{more}: {problem}"


def _problem(q: QParams) -> str | None:
    if q == _NEVER_OBSERVED:
        return (
            "never observed in calibration (scale 1, zero point 0), so that what the VPU computes "
            "means nothing. Run the prepared model on calibration data before convert_pt2e."
        )
    if q.scale <= LEAST_OBSERVED_SCALE:
        return (
            f"the smallest scale there is, {LEAST_OBSERVED_SCALE:.3g}: values become zero, or "
            "nearly. Scale the tensor up."
        )
    if q.scale > MAX_SCALE:
        return (
            f"a scale above {MAX_SCALE:.3g}: the calibration has seen huge values, beside which "
            "all others vanish. Scale the tensor down, or mask with a smaller number."
        )
    return None


def narrow_parts(plan: Plan) -> Iterator[str]:
    """A sentence for every part of a join that keeps few levels beside a wider one."""
    for subgraph in plan.subgraphs:
        for unit in subgraph.units:
            if unit.chain is None or not unit.chain.op.joins:
                continue
            for i, source in enumerate(unit.sources):
                levels = round(256 * unit.input_qparams(i).scale / unit.output_qparams.scale)
                if levels < FEWEST_LEVELS:
                    yield (
                        f"{name_of(source_of(source))} keeps {levels} of its 256 levels in "
                        f"{name_of(unit.root)}, beside parts of a wider range. Scale the parts "
                        "alike before joining them, or join them at the model's output."
                    )
