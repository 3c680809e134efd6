"""Maxima over windows. Padding never wins: it is cut off the windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, shape_of
from ..layout import physical
from ..pooling import NHWC, per_window, pooling_problem, windows_of
from ..program import Instruction, Operand, Tensor, Windows
from ..table import OutputRange, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder


@dataclass
class MaxPool2d(Instruction):
    """x [N, H, W, C] -> [N, OH, OW, C]: the largest int8 value of every window."""

    rows: Windows
    columns: Windows

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        return per_window(inputs[0].data, self.rows, self.columns, "max")


@register
class MaxPool2dOp(VpuOp):
    name = "max_pool2d"
    targets = (torch.ops.aten.max_pool2d.default,)
    output_range = OutputRange.SHARED
    takes_largest = True

    def check(self, node: Node) -> str | None:
        problem = pooling_problem(node)
        if problem is not None:
            return problem
        for windows in windows_of(node, arguments(node).dilation):
            if any(begin >= end for begin, end in zip(windows.begin, windows.end, strict=True)):
                return "one of its windows lies wholly in the padding"
        return None

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        pool = MaxPool2d(*windows_of(unit.root, arguments(unit.root).dilation))
        shape = physical(shape_of(unit.quantize), NHWC)
        inputs = [builder.shared_input(unit, NHWC)]
        builder.define(unit, builder.emit(pool, inputs, shape, unit.output_qparams), NHWC)
