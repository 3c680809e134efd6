"""Calls that return their input's values: dropout in eval mode, copies, conversions to float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from ..arguments import arguments
from ..table import OutputRange, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten


@register
class IdentityOp(VpuOp):
    name = "identity"
    targets = (
        aten.dropout.default,
        aten.dropout_.default,
        aten.feature_dropout.default,
        aten.feature_dropout_.default,
        aten.alpha_dropout.default,
        aten.alpha_dropout_.default,
        aten.feature_alpha_dropout.default,
        aten.feature_alpha_dropout_.default,
        aten.clone.default,
        aten.contiguous.default,
        aten.alias.default,
        aten.detach.default,
        aten.lift_fresh_copy.default,
        aten.to.dtype,
        aten.to.dtype_layout,
        aten.to.device,
        aten.to.other,
        aten.type_as.default,
        aten._to_copy.default,
    )
    output_range = OutputRange.SHARED
    data_movement = True
    transparent = True

    def check(self, node: Node) -> str | None:
        call = arguments(node)
        if getattr(call, "train", False) and call.p != 0:
            return f"it drops elements at random (train=True, p={call.p})"
        return None

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        layout = builder.layout(unit.sources[0])
        builder.alias(unit, builder.shared_input(unit, layout), layout)
