"""Sizes that are not known yet: a graph that was exported with dynamic shapes.

The quantizer takes such a graph, as the program that is lowered later may have static shapes. The
plan does not: the VPU's memory is planned ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node, map_arg
from torch.fx.experimental.symbolic_shapes import (
    free_unbacked_symbols,
    guarding_hint_or_throw,
    statically_known_true,
)

from .namespace import aten_target

aten = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_SIZES = (aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default)


def depends_on_data(sizes: Sequence[int | torch.SymInt]) -> bool:
    """Whether some of them are only known when the model runs, not from its inputs' shapes."""
    return any(isinstance(size, torch.SymInt) and free_unbacked_symbols(size) for size in sizes)


def same_shape(a: Node, b: Node) -> bool:
    """Whether two tensors have the same shape, whatever their dynamic sizes are."""
    left, right = a.meta["val"].shape, b.meta["val"].shape
    # A plain == would settle dynamic sizes at those of the example inputs.
    return len(left) == len(right) and all(
        statically_known_true(x == y) for x, y in zip(left, right, strict=True)
    )


def is_size(node: Node) -> bool:
    """Whether a node computes a dynamic size from shapes: of static ones, nothing is left of it."""
    if node.op != "call_function" or isinstance(node.meta.get("val"), torch.Tensor):
        return False
    if aten_target(node) in _SIZES:
        return True
    sources = node.all_input_nodes
    return bool(sources) and all(isinstance(s.meta.get("val"), _SYMBOLIC) for s in sources)


def computed_argument(node: Node, dynamic: bool) -> str | None:
    """A number among a call's arguments that is not known when lowering; None if all are.

    Args:
        dynamic: a number that follows from the sizes of the model's inputs will be known then.
    """
    for source in node.all_input_nodes:
        value = source.meta.get("val")
        if isinstance(value, _SYMBOLIC) and not (dynamic and not free_unbacked_symbols(value)):
            return f"its argument {source.name} is computed when the program runs"
    return None


def at_export(arguments: Any) -> Any:
    """The arguments of a call, of which other nodes compute some, as they were for the example
    inputs of the export: numbers as numbers, of tensors the shapes alone."""
    return map_arg(arguments, _at_export)


def _at_export(node: Node) -> Any:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return torch.empty(shape_at_export(node), dtype=value.dtype)
    return guarding_hint_or_throw(value) if isinstance(value, torch.SymInt) else value


def shape_at_export(node: Node) -> tuple[int, ...]:
    """The shape of a tensor for the example inputs of the export."""
    return tuple(guarding_hint_or_throw(size) for size in node.meta["val"].shape)
