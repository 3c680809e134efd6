"""Products of two tensors, broadcast; products and quotients with a number are a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..elementwise import BinaryOp, lower_binary
from ..namespace import aten_target
from ..numerics import multiplier, store
from ..program import INT8_MAX, INT8_MIN, Instruction, Operand, Tensor
from ..table import Link, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten


@dataclass
class Mul(Instruction):
    """store(((a - zp_a) * (b - zp_b)) * multiplier)"""

    multiplier: float
    out_min: int = INT8_MIN
    out_max: int = INT8_MAX

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        a, b = (x.centered for x in inputs)
        f = (a * b).astype(np.float32) * np.float32(self.multiplier)
        return store(f, output.zero_point, self.out_min, self.out_max)


@register
class MulOp(BinaryOp):
    name = "mul"
    targets = (
        aten.mul.Tensor,
        aten.mul_.Tensor,
        aten.mul.Scalar,
        aten.mul_.Scalar,
        aten.multiply.Tensor,
        aten.multiply_.Tensor,
        aten.multiply.Scalar,
        aten.multiply_.Scalar,
        aten.div.Tensor,
        aten.div_.Tensor,
        aten.div.Scalar,
        aten.div_.Scalar,
    )
    links = (Link.ACTIVATION,)

    def check(self, node: Node) -> str | None:
        if _divides(node) and len(self.activations(node)) == 2:
            return "it divides by a tensor; only division by a number is supported"
        return super().check(node)

    def factor(self, node: Node) -> float | None:
        number = self.number(node)
        if number is None or number <= 0:
            return None
        return 1 / number if _divides(node) else number

    def lower_tensors(self, unit: Unit, builder: ProgramBuilder) -> None:
        low, high = unit.output_clamp
        scale = unit.input_qparams(0).scale * unit.input_qparams(1).scale
        factor = float(multiplier(scale, unit.output_qparams.scale))
        lower_binary(unit, builder, Mul(factor, low, high))


def _divides(node: Node) -> bool:
    target = aten_target(node)
    return target is not None and target._schema.name.startswith("aten::div")
