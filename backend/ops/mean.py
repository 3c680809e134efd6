"""Means over any dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, rank_of, shape_of, size_of
from ..layout import physical
from ..numerics import INT32_MAX, multiplier, store
from ..program import INT8_MAX, INT8_MIN, Instruction, Operand, Tensor
from ..table import Link, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten

MAX_ELEMENTS = INT32_MAX // 255  # of so many centered values the sum fits int32


@dataclass
class Mean(Instruction):
    """store((sum (x - zp)) / n * multiplier) over `axes`, n elements at a time."""

    axes: tuple[int, ...]
    multiplier: float
    out_min: int = INT8_MIN
    out_max: int = INT8_MAX

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        x = inputs[0].centered
        total = x.sum(self.axes).astype(np.float32)
        n = np.float32(prod(x.shape[axis] for axis in self.axes))
        f = total / n * np.float32(self.multiplier)
        return store(f, output.zero_point, self.out_min, self.out_max).reshape(output.shape)


@register
class MeanOp(VpuOp):
    name = "mean"
    targets = (aten.mean.dim, aten.mean.default)
    links = (Link.ACTIVATION,)

    def check(self, node: Node) -> str | None:
        source = arguments(node).input
        elements = prod(size_of(source, d) for d in sorted(_reduced(node)))
        if elements > MAX_ELEMENTS:
            return f"it sums {elements} elements; the int32 sum is proven to hold {MAX_ELEMENTS}"
        return None

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        source = unit.sources[0]
        shape, layout = shape_of(source), builder.layout(source)
        reduced = _reduced(unit.root)
        axes = tuple(i for i, d in enumerate(layout) if d in reduced)
        factor = float(multiplier(unit.input_qparams(0).scale, unit.output_qparams.scale))
        mean = Mean(axes, factor, *unit.output_clamp)
        kept = [d for d in range(len(shape)) if d not in reduced]
        if rank_of(unit.quantize) != len(shape):  # without keepdim the kept dimensions move up
            layout = tuple(kept.index(d) for d in layout if d in kept)
        stored = physical(shape_of(unit.quantize), layout)
        inputs = [builder.input(source, builder.layout(source))]
        builder.define(unit, builder.emit(mean, inputs, stored, unit.output_qparams), layout)


def _reduced(node: Node) -> set[int]:
    """The dimensions averaged over: all of them if none is given."""
    call = arguments(node)
    rank = rank_of(call.input)
    dims = getattr(call, "dim", None)
    dims = [dims] if isinstance(dims, int) else dims
    return {d % rank for d in dims} if dims else set(range(rank))
