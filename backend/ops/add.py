"""Sums and differences of two tensors, broadcast; with a number they are a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments
from ..dynamic import same_shape
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
class Add(Instruction):
    """store((a - zp_a) * a_multiplier + (b - zp_b) * b_multiplier)"""

    a_multiplier: float
    b_multiplier: float
    out_min: int = INT8_MIN
    out_max: int = INT8_MAX

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        a, b = (x.centered.astype(np.float32) for x in inputs)
        f = a * np.float32(self.a_multiplier) + b * np.float32(self.b_multiplier)
        return store(f, output.zero_point, self.out_min, self.out_max)


@register
class AddOp(BinaryOp):
    name = "add"
    targets = (
        aten.add.Tensor,
        aten.add_.Tensor,
        aten.add.Scalar,
        aten.add_.Scalar,
        aten.sub.Tensor,
        aten.sub_.Tensor,
        aten.sub.Scalar,
        aten.sub_.Scalar,
        aten.subtract.Tensor,
        aten.subtract_.Tensor,
        aten.subtract.Scalar,
        aten.subtract_.Scalar,
        aten.rsub.Scalar,
    )
    links = (Link.ACTIVATION,)
    link = Link.ADD

    def check(self, node: Node) -> str | None:
        alpha = arguments(node).alpha
        if alpha != 1 and len(self.activations(node)) == 2:
            return f"alpha is {alpha}; two tensors are added with alpha 1 only"
        return super().check(node)

    def factor(self, node: Node) -> float | None:
        reversed_ = aten_target(node) is aten.rsub.Scalar
        added = self.number(node) is not None and isinstance(arguments(node).input, Node)
        return 1.0 if added and not reversed_ else None

    def signs(self, node: Node) -> tuple[int, int] | None:
        return (1, _sign(node)) if len(self.activations(node)) == 2 else None

    def can_follow(self, node: Node, producer: Node) -> bool:
        """A residual: another tensor of the same shape is added, without broadcasting."""
        operands = self.activations(node)
        return (
            _sign(node) > 0
            and self.check(node) is None
            and len(operands) == 2
            and operands.count(producer) == 1
            and same_shape(*operands)
        )

    def lower_tensors(self, unit: Unit, builder: ProgramBuilder) -> None:
        scale = unit.output_qparams.scale
        low, high = unit.output_clamp
        a, b = (float(multiplier(unit.input_qparams(i).scale, scale)) for i in range(2))
        lower_binary(unit, builder, Add(a, _sign(unit.root) * b, low, high))


def _sign(node: Node) -> int:
    target = aten_target(node)
    return -1 if target is not None and "sub" in target._schema.name else 1
