"""Linear layers, over any number of leading dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from numpy.typing import NDArray

from ..arguments import shape_of
from ..layout import contiguous
from ..program import INT8_MAX, INT8_MIN, Instruction, Operand, Tensor
from ..table import Link, register
from ..units import Unit
from ..weighted import (
    RESIDUAL,
    WeightedOp,
    constants,
    integer_matmul,
    requantize,
    residual_multiplier,
    weights_of,
)

if TYPE_CHECKING:
    from ..builder import ProgramBuilder


@dataclass
class Linear(Instruction):
    """inputs: x [..., K], weight [N, K], bias, multiplier[, residual]."""

    overwrites = RESIDUAL

    residual_multiplier: float = 0.0
    out_min: int = INT8_MIN
    out_max: int = INT8_MAX

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        accumulator = integer_matmul(inputs[0].centered, inputs[1].data.T) + inputs[2].data
        return requantize(
            accumulator, inputs, self.residual_multiplier, output, self.out_min, self.out_max
        )


@register
class LinearOp(WeightedOp):
    name = "linear"
    targets = (torch.ops.aten.linear.default,)
    links = (Link.ADD, Link.ACTIVATION)  # QAT folds no batch_norm into a linear layer

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        weights = weights_of(unit, self)
        shape = shape_of(unit.quantize)
        layout = contiguous(len(shape))
        x, *residual = (builder.input(source, layout) for source in unit.sources)
        low, high = unit.output_clamp
        output = builder.emit(
            Linear(residual_multiplier(unit), low, high),
            [x, *constants(weights, weights.weight, builder), *residual],
            shape,
            unit.output_qparams,
        )
        builder.define(unit, output, layout)
