"""What the binary elementwise families share: broadcasting, and the tensor-with-number form."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from torch.fx import Node

from .arguments import arguments, rank_of, shape_of
from .layout import Layout, physical
from .ops.lookup import lower_lookup, unary_table
from .program import Instruction
from .table import VpuOp
from .units import Unit

if TYPE_CHECKING:
    from .builder import ProgramBuilder


class BinaryOp(VpuOp):
    """Base of the binary families: arguments `input` and `other`, of which one may be a number."""

    def activations(self, node: Node) -> list[Node]:
        call = arguments(node)
        return [a for a in (call.input, call.other) if isinstance(a, Node)]

    def number(self, node: Node) -> float | None:
        """The number a call combines its tensor with; None if both operands are tensors."""
        call = arguments(node)
        numbers = [a for a in (call.input, call.other) if not isinstance(a, Node)]
        return float(numbers[0]) if numbers else None

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        if len(unit.sources) == 1:  # with a number: a function of one tensor
            clamp = unit.output_clamp
            table = unary_table(unit.root, unit.input_qparams(0), unit.output_qparams)
            lower_lookup(unit, builder, table.clip(*clamp))
        else:
            self.lower_tensors(unit, builder)

    @abstractmethod
    def lower_tensors(self, unit: Unit, builder: ProgramBuilder) -> None:
        """Lowers the form with two tensors."""


def lower_binary(unit: Unit, builder: ProgramBuilder, instruction: Instruction) -> None:
    """Emits a binary instruction, in the layout of an operand of full rank."""
    shape = shape_of(unit.quantize)
    layout = builder.common_layout([s for s in unit.sources if rank_of(s) == len(shape)])
    inputs = [broadcast_input(source, layout, builder) for source in unit.sources]
    output = builder.emit(instruction, inputs, physical(shape, layout), unit.output_qparams)
    builder.define(unit, output, layout)


def broadcast_input(source: Node, layout: Layout, builder: ProgramBuilder) -> int:
    """An operand in `layout`, ones put in front of its shape up to the layout's rank."""
    shape = shape_of(source)
    missing = len(layout) - len(shape)
    if missing == 0:
        return builder.input(source, layout)
    # Stored in the order `layout` gives to its own dimensions; the ones take no place.
    own = tuple(d - missing for d in layout if d >= missing)
    stored = physical((1,) * missing + shape, layout)
    return builder.view(builder.input(source, own), stored)
