"""Joining tensors. The output has its own range; parts of other parameters are requantized on the
way, each through a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, shape_of
from ..layout import Layout, physical
from ..namespace import aten_target
from ..numerics import requantize_table
from ..program import Instruction, Operand, Tensor
from ..table import VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten


@dataclass
class Concat(Instruction):
    """The parts one after the other along `axis`. tables[i]: the constant part i goes through, or
    -1."""

    axis: int
    tables: tuple[int, ...]

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        # The parts come requantized: `reference.Reference` has applied the tables.
        return np.concatenate([x.data for x in inputs], self.axis)


@register
class ConcatOp(VpuOp):
    name = "cat"
    targets = (
        aten.cat.default,
        aten.concat.default,
        aten.concatenate.default,
        aten.stack.default,
    )
    joins = True

    def moves_data(self, node: Node) -> bool:
        return len(self.activations(node)) == 1

    def activations(self, node: Node) -> list[Node]:
        return list(arguments(node).tensors)

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        shape = shape_of(unit.quantize)
        dim = arguments(unit.root).dim % len(shape)
        layout = builder.common_layout(unit.sources)
        parts = [builder.input(source, layout) for source in unit.sources]
        if aten_target(unit.root) is aten.stack.default:
            layout = _with_dimension(layout, dim)
            parts = [
                builder.view(part, physical(_with_one(shape_of(source), dim), layout))
                for part, source in zip(parts, unit.sources, strict=True)
            ]
        concat = Concat(layout.index(dim), self._tables(unit, builder))
        stored = physical(shape, layout)
        builder.define(unit, builder.emit(concat, parts, stored, unit.output_qparams), layout)

    def _tables(self, unit: Unit, builder: ProgramBuilder) -> tuple[int, ...]:
        output = unit.output_qparams
        qparams = [unit.input_qparams(i) for i in range(len(unit.sources))]
        table_of = {q: builder.constant(requantize_table(q, output)) for q in {*qparams} - {output}}
        return tuple(table_of.get(q, -1) for q in qparams)


def _with_one(shape: Sequence[int], dim: int) -> tuple[int, ...]:
    return (*shape[:dim], 1, *shape[dim:])


def _with_dimension(layout: Layout, dim: int) -> Layout:
    """The layout with a new logical dimension `dim`, stored in that place."""
    moved = [d + (d >= dim) for d in layout]
    return (*moved[:dim], dim, *moved[dim:])
