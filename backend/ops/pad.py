"""Constant padding; negative padding crops. The value is quantized as the Q/DQ graph does: with the
tensor's parameters, and saturating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, rank_of, shape_of
from ..layout import physical
from ..program import Instruction, Operand, Tensor
from ..table import OutputRange, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten


@dataclass
class Pad(Instruction):
    """before[d] cells of `value` precede dimension d; the rest of the output follows it."""

    before: tuple[int, ...]
    value: int

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        x = inputs[0].data
        y = np.full(output.shape, self.value, np.int8)
        source, target = [], []
        for before, size, padded in zip(self.before, x.shape, output.shape, strict=True):
            first = max(before, 0)
            last = max(min(size + before, padded), first)
            target.append(slice(first, last))
            source.append(slice(first - before, last - before))
        y[tuple(target)] = x[tuple(source)]
        return y


@register
class PadOp(VpuOp):
    name = "pad"
    targets = (aten.constant_pad_nd.default, aten.pad.default)
    output_range = OutputRange.SHARED
    data_movement = True

    def check(self, node: Node) -> str | None:
        mode = getattr(arguments(node), "mode", "constant")
        return None if mode == "constant" else f"its mode is {mode!r}; only 'constant' is supported"

    def brings_in(self, node: Node) -> float:
        value = arguments(node).value
        return float(value) if isinstance(value, (int, float)) else 0.0

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        source = unit.sources[0]
        call, layout = arguments(unit.root), builder.layout(source)
        value = int(unit.output_qparams.quantize(call.value or 0.0))
        pad = Pad(physical(_before(unit.root), layout), value)
        inputs = [builder.shared_input(unit, layout)]
        stored = physical(shape_of(unit.quantize), layout)
        builder.define(unit, builder.emit(pad, inputs, stored, unit.output_qparams), layout)


def _before(node: Node) -> list[int]:
    """Cells before each dimension. A call lists (before, after) pairs, last dimension first."""
    call = arguments(node)
    before = [0] * rank_of(call.input)
    for i, cells in enumerate(call.pad[::2]):
        before[-1 - i] = cells
    return before
