"""Products of two activations, as matrices, over any leading dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, rank_of, shape_of, size_of
from ..elementwise import broadcast_input
from ..layout import contiguous
from ..numerics import INT32_MAX, multiplier, store
from ..program import INT8_MAX, INT8_MIN, Instruction, Operand, Tensor
from ..table import Link, VpuOp, register
from ..units import Unit
from ..weighted import integer_matmul

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten

MAX_INNER = INT32_MAX // 255**2  # of so many products the sum fits int32, whatever the zero points


@dataclass
class MatMul(Instruction):
    """store((sum (a - zp_a) * (b - zp_b)) * multiplier). inputs: a [..., M, K], b [..., K, N]."""

    multiplier: float
    out_min: int = INT8_MIN
    out_max: int = INT8_MAX

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        a, b = inputs
        f = integer_matmul(a.centered, b.centered).astype(np.float32) * np.float32(self.multiplier)
        return store(f, output.zero_point, self.out_min, self.out_max)


@register
class MatMulOp(VpuOp):
    name = "matmul"
    targets = (aten.matmul.default, aten.bmm.default, aten.mm.default)
    links = (Link.ACTIVATION,)

    def activations(self, node: Node) -> list[Node]:
        return list(vars(arguments(node)).values())[:2]

    def check(self, node: Node) -> str | None:
        for operand in self.activations(node):
            if rank_of(operand) < 2:
                return f"its input {operand.name} has rank {rank_of(operand)}; the least is 2"
        inner = size_of(self.activations(node)[0], -1)
        if inner > MAX_INNER:
            return f"it sums {inner} products; the int32 accumulator is proven to hold {MAX_INNER}"
        return None

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        shape = shape_of(unit.quantize)
        layout = contiguous(len(shape))
        inputs = [broadcast_input(source, layout, builder) for source in unit.sources]
        scale = unit.input_qparams(0).scale * unit.input_qparams(1).scale
        matmul = MatMul(float(multiplier(scale, unit.output_qparams.scale)), *unit.output_clamp)
        builder.define(unit, builder.emit(matmul, inputs, shape, unit.output_qparams), layout)
