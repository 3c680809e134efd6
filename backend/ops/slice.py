"""Parts of a tensor: slice with any step, narrow, select."""

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
from ..namespace import aten_target
from ..program import Instruction, Operand, Tensor
from ..table import OutputRange, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten


@dataclass
class Slice(Instruction):
    """Output dimension d runs over begin[d], begin[d] + step[d], ..."""

    begin: tuple[int, ...]
    step: tuple[int, ...]

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        positions = [
            begin + step * np.arange(size)
            for begin, step, size in zip(self.begin, self.step, output.shape, strict=True)
        ]
        return inputs[0].data[np.ix_(*positions)]


@register
class SliceOp(VpuOp):
    name = "slice"
    targets = (aten.slice.Tensor, aten.narrow.default, aten.select.int)
    output_range = OutputRange.SHARED
    data_movement = True

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        source = unit.sources[0]
        shape, layout = shape_of(source), builder.layout(source)
        dim, cells = _selection(unit.root)
        begin = tuple(cells.start if d == dim else 0 for d in layout)
        step = tuple(cells.step if d == dim else 1 for d in layout)
        cut = physical([len(cells) if d == dim else size for d, size in enumerate(shape)], layout)
        inputs = [builder.shared_input(unit, layout)]
        output = builder.emit(Slice(begin, step), inputs, cut, unit.output_qparams)
        if rank_of(unit.quantize) < len(shape):  # select drops the dimension
            layout = tuple(d - (d > dim) for d in layout if d != dim)
        builder.alias(unit, output, layout)


def _selection(node: Node) -> tuple[int, range]:
    """(dimension, the positions along it a call takes)."""
    call = arguments(node)
    shape = shape_of(call.input)
    dim = call.dim % len(shape)
    positions = range(shape[dim])
    target = aten_target(node)
    if target is aten.select.int:
        index = positions[call.index]
        return dim, range(index, index + 1)
    if target is aten.narrow.default:
        start = call.start % shape[dim] if call.start < 0 else call.start
        return dim, range(start, start + call.length)
    return dim, positions[slice(call.start, call.end, call.step)]
