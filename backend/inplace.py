"""In-place calls on a graph that still has them.

A quantized graph gives every reader a copy of its operand, so a write is seen only through the
call's own result. Where someone else reads the same memory afterwards, quantizing any tensor that
stands for it would change what the model computes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

from torch.fx import Graph, Node

from .arguments import arguments
from .namespace import overload_of


def in_place_hazards(graph: Graph) -> dict[Node, str]:
    """The nodes that must stay as they are because of an in-place call, each with the reason."""
    hazards: dict[Node, str] = {}
    position = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        for base in written_memory(node):
            others = names_of(base, without=node)  # all but the call's own result and its views
            readers = [user for name in others for user in name.users]
            later = [user for user in readers if position[user] > position[node]]
            if later:
                problem = f"which {later[0].name} reads later"
            elif base.op != "call_function":
                problem = "which outlives the call"
            else:
                continue
            reason = f"{node.name} writes in place to the memory of {base.name}, {problem}"
            hazards.update(dict.fromkeys((*others, *readers, *names_of(node)), reason))
    return hazards


def written_memory(node: Node) -> Iterator[Node]:
    """The tensors whose memory a call writes to, views of it traced back to their base. Mirrors in
    the `vpu::` namespace write to none."""
    overload = overload_of(node)
    if overload is None or not overload._schema.is_mutable:
        return
    for value, alias in _operands(node):
        if alias is not None and alias.is_write and isinstance(value, Node):
            while (source := _aliased(value)) is not None:
                value = source
            yield value


def _aliased(node: Node) -> Node | None:
    """The tensor whose memory a call returns: a view's base, an in-place call's target."""
    if node.target is operator.getitem:
        return node.all_input_nodes[0]
    overload = overload_of(node)
    if overload is not None and any(r.alias_info is not None for r in overload._schema.returns):
        for value, alias in _operands(node):
            if alias is not None and isinstance(value, Node):
                return value
    return None


def _operands(node: Node) -> Iterator[tuple[Any, Any]]:
    """Every argument of a call with what its schema says of aliasing."""
    overload = overload_of(node)
    if overload is not None:
        values = vars(arguments(node)).values()
        for value, argument in zip(values, overload._schema.arguments, strict=True):
            yield value, argument.alias_info


def names_of(base: Node, without: Node | None = None) -> list[Node]:
    """`base` and every node that stands for (part of) its memory, except for `without` and what
    stands for that."""
    names = [base]
    for name in names:
        names += [user for user in name.users if user is not without and _aliased(user) is name]
    return names
