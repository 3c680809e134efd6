"""In-place calls on a graph that still has them.

A quantized graph gives every reader a copy of its operand, so a write is seen only through the
call's own result. Where someone else reads the same memory afterwards, quantizing any tensor that
stands for it would change what the model computes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch._ops import OpOverload
from torch.fx import Graph, Node

from .arguments import arguments
from .namespace import overload_of


def in_place_hazards(graph: Graph) -> dict[Node, str]:
    """The nodes that must stay as they are because of an in-place call, each with the reason."""
    hazards: dict[Node, str] = {}
    position = {node: i for i, node in enumerate(graph.nodes)}
    calls: dict[Node, list[Node]] = {}
    for call, base in writes(graph):
        calls.setdefault(base, []).append(call)
    for base, written_by in calls.items():
        memory = _Memory.of(base, position)
        dangerous = [
            call
            for call in written_by
            if base.op != "call_function" or memory.last_read(call) > position[call]
        ]
        # Of two calls the later speaks for all names but its own result's; for those, the last
        # whose result they are not.
        for call in _telling(dangerous, memory):
            others = names_of(base, without=call)  # all but the call's own result and its views
            readers = [user for name in others for user in name.users]
            later = [user for user in readers if position[user] > position[call]]
            problem = f"which {later[0].name} reads later" if later else "which outlives the call"
            reason = f"{call.name} writes in place to the memory of {base.name}, {problem}"
            hazards.update(dict.fromkeys((*others, *readers, *names_of(call)), reason))
    return hazards


def writes(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """(call, base) of every tensor whose memory a call writes to, views of it traced back to their
    base. Mirrors in the `vpu::` namespace write to none."""
    base_of: dict[Node, Node] = {}
    for node in graph.nodes:
        source = _aliased(node)
        base_of[node] = node if source is None else base_of[source]
        for value, alias in _operands(node) if _is_mutable(node) else ():
            if alias is not None and alias.is_write and isinstance(value, Node):
                yield node, base_of[value]


@dataclass(frozen=True)
class _Memory:
    """Who stands for some memory, each followed by all that stands for it in turn.

    Attributes:
        span: name -> where it is in that order, and where what stands for it ends.
        read_until, read_from: the last position at which one of the first i names is read, or one
            from the i-th on; -1 if none is.
    """

    span: dict[Node, tuple[int, int]]
    read_until: list[int]
    read_from: list[int]

    @staticmethod
    def of(base: Node, position: dict[Node, int]) -> _Memory:
        order: list[Node] = []
        span: dict[Node, tuple[int, int]] = {}
        pending = [(base, False)]
        while pending:
            name, done = pending.pop()
            if done:
                span[name] = (span[name][0], len(order))
                continue
            span[name] = (len(order), len(order))
            order.append(name)
            pending.append((name, True))
            pending += [(user, False) for user in name.users if _aliased(user) is name]
        reads = [max((position[user] for user in name.users), default=-1) for name in order]
        until, since = [-1], [-1]
        for forwards, backwards in zip(reads, reversed(reads), strict=True):
            until.append(max(until[-1], forwards))
            since.append(max(since[-1], backwards))
        return _Memory(span, until, since[::-1])

    def last_read(self, call: Node) -> int:
        """The last position at which the memory is read, not through a call's own result."""
        start, end = self.span.get(call, (0, 0))
        return max(self.read_until[start], self.read_from[end])

    def stands_for(self, name: Node, call: Node) -> bool:
        """Whether `name` is a call's result, or stands for it."""
        if name not in self.span or call not in self.span:
            return name is call
        start, end = self.span[call]
        return start <= self.span[name][0] < end


def _telling(calls: list[Node], memory: _Memory) -> list[Node]:
    """Those of the calls, in order, whose reasons are left when later ones overwrite earlier."""
    if not calls:
        return []
    last = calls[-1]
    apart = [call for call in calls[:-1] if not memory.stands_for(last, call)]
    outside = [call for call in apart[:-1] if call not in memory.span]  # results of their own
    return [*outside, *apart[-1:], last]


def _aliased(node: Node) -> Node | None:
    """The tensor whose memory a call returns: a view's base, an in-place call's target."""
    if node.target is operator.getitem:
        return node.all_input_nodes[0]
    overload = overload_of(node)
    if overload is not None and _returns_alias(overload):
        for value, alias in _operands(node):
            if alias is not None and isinstance(value, Node):
                return value
    return None


def is_view(node: Node) -> bool:
    """Whether a call returns (part of) its operand's memory and computes nothing."""
    return _aliased(node) is not None and not _is_mutable(node)


def _operands(node: Node) -> Iterator[tuple[Any, Any]]:
    """Every argument of a call with what its schema says of aliasing."""
    overload = overload_of(node)
    if overload is not None:
        yield from zip(vars(arguments(node)).values(), _aliases(overload), strict=True)


# Reading a schema costs more than all else here.


@functools.cache
def _aliases(overload: OpOverload) -> tuple[Any, ...]:
    return tuple(argument.alias_info for argument in overload._schema.arguments)


@functools.cache
def _returns_alias(overload: OpOverload) -> bool:
    return any(r.alias_info is not None for r in overload._schema.returns)


def _is_mutable(node: Node) -> bool:
    overload = overload_of(node)
    return overload is not None and bool(overload._schema.is_mutable)


def names_of(base: Node, without: Node | None = None) -> list[Node]:
    """`base` and every node that stands for (part of) its memory, except for `without` and what
    stands for that."""
    names = [base]
    for name in names:
        names += [user for user in name.users if user is not without and _aliased(user) is name]
    return names
