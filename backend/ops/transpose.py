"""Reordering dimensions. A permute is free: only the layout of the value changes; a Transpose
instruction appears where an op needs the value stored another way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, rank_of
from ..namespace import aten_target
from ..program import Instruction, Operand, Tensor
from ..table import OutputRange, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten


@dataclass
class Transpose(Instruction):
    """Output dimension i is input dimension perm[i]."""

    perm: tuple[int, ...]

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        return inputs[0].data.transpose(self.perm).reshape(output.shape)


@register
class PermuteOp(VpuOp):
    name = "permute"
    targets = (
        aten.permute.default,
        aten.transpose.int,
        aten.t.default,
        aten.numpy_T.default,
        aten.mT.default,
        aten.swapaxes.default,
        aten.swapdims.default,
        aten.movedim.int,
        aten.movedim.intlist,
    )
    output_range = OutputRange.SHARED
    data_movement = True

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        source = unit.sources[0]
        layout = builder.layout(source)
        dims = permutation(unit.root)
        # Output dimension j is input dimension dims[j]; the memory stays as it is.
        moved = tuple(dims.index(d) for d in layout)
        builder.alias(unit, builder.shared_input(unit, layout), moved)


def permutation(node: Node) -> tuple[int, ...]:
    """Output dimension j of a permute-like call is its input's dimension permutation[j]."""
    rank = rank_of(node.all_input_nodes[0])
    # Run the call itself on a tensor whose sizes name its dimensions: no form has to be decoded.
    call = arguments(node)
    named = torch.empty(tuple(range(rank)), device="meta")
    target = aten_target(node)
    assert target is not None
    return tuple(target(named, *list(vars(call).values())[1:]).shape)
