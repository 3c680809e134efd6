"""Softmax along one dimension. The exponentials are a table of integers, so their sum is exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, rank_of, shape_of, size_of
from ..layout import physical
from ..numerics import QParams, multiplier, store
from ..program import Instruction, Operand, Tensor
from ..table import OutputRange, Reads, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten

ONE = 2**23  # exp(0) in the table: the largest power of two whose neighbours float32 tells apart


@dataclass
class Softmax(Instruction):
    """store(e[i] * (multiplier / sum e)), e[i] = exponentials[max(x) - x[i]]."""

    axis: int
    multiplier: float

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        x, exponentials = inputs[0].data.astype(np.int64), inputs[1].data
        e = exponentials[x.max(self.axis, keepdims=True) - x]
        total = e.sum(self.axis, keepdims=True, dtype=np.int64)
        factor = np.float32(self.multiplier) / total.astype(np.float32)
        return store(e.astype(np.float32) * factor, output.zero_point)


@register
class SoftmaxOp(VpuOp):
    name = "softmax"
    targets = (aten.softmax.int, aten._softmax.default)
    output_range = OutputRange.FIXED
    fixed = QParams(1.0 / 256.0, -128)  # the function's whole range, [0, 1)

    def reads(self, node: Node) -> Reads:
        """A score whose exponential is half an output step, divided among all of a row, below the
        largest: all such together move no output by more than that."""
        dim = arguments(node).dim
        half_step = self.fixed.scale / 2
        return Reads(dim=dim, depth=math.log(size_of(node, dim) / half_step))

    def check(self, node: Node) -> str | None:
        call = arguments(node)
        if rank_of(call.input) == 0:
            return "its input has no dimension"
        size_of(node, call.dim)  # `reads` asks for it
        return None

    def check_unit(self, unit: Unit) -> str | None:
        # Every exponential is rounded by up to 1/2. All together, in a sum of at least ONE, they
        # may move an output by no more than half a step.
        elements = shape_of(unit.quantize)[arguments(unit.root).dim]
        limit = int(ONE * unit.output_qparams.scale)
        if elements > limit:
            return f"it sums {elements} exponentials; with its output scale the limit is {limit}"
        return None

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        source = unit.sources[0]
        layout = builder.layout(source)
        axis = layout.index(arguments(unit.root).dim % len(layout))
        softmax = Softmax(axis, float(multiplier(1.0, unit.output_qparams.scale)))
        below_max = np.arange(256) * unit.input_qparams(0).scale
        exponentials = np.rint(np.exp(-below_max) * ONE).astype(np.int32)
        inputs = [builder.input(source, layout), builder.constant(exponentials)]
        stored = physical(shape_of(unit.quantize), layout)
        builder.define(unit, builder.emit(softmax, inputs, stored, unit.output_qparams), layout)
