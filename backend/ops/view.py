"""Reshapes. No instruction: the same memory under another shape, after a Transpose where the stored
order of the dimensions does not allow that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..arguments import shape_of
from ..layout import contiguous, reshaped
from ..table import OutputRange, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten


@register
class ViewOp(VpuOp):
    name = "view"
    targets = (
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten.view_as.default,
        aten.reshape_as.default,
        aten.flatten.using_ints,
        aten.unflatten.int,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
    )
    output_range = OutputRange.SHARED
    data_movement = True

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        source = unit.sources[0]
        before, after = shape_of(source), shape_of(unit.quantize)
        layout = builder.layout(source)
        target = reshaped(before, after, layout)
        if target is None:
            layout, target = contiguous(len(before)), contiguous(len(after))
        builder.alias(unit, builder.shared_input(unit, layout), target)
