"""Convex grouping: which units can share a subgraph.

A subgraph is executed in one go, so no path may leave it and come back. Keeping each group convex
is not enough, two groups could feed each other; so reachability is kept on the contracted graph,
where a group is one node, and a merge must leave that graph acyclic.

The quantizer asks on the float graph, the plan on the Q/DQ graph: so they agree on what only moves
data, and stays on the CPU.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from torch.fx import Graph, Node

from .units import is_op

T = TypeVar("T", bound=Hashable)

ONLY_MOVES_DATA = "its subgraph would only move data: not worth the boundary"


@dataclass(frozen=True)
class Item:
    """What stays together in any case: a unit of a Q/DQ graph, or a chain that will be one.

    Attributes:
        nodes: its ops, and what stands for its output, last.
        sources: the nodes that stand for its operands.
        data_movement: whether it computes nothing.
    """

    nodes: tuple[Node, ...]
    sources: tuple[Node, ...]
    data_movement: bool

    @property
    def output(self) -> Node:
        return self.nodes[-1]


def convex_groups(graph: Graph, items: Iterable[Item]) -> list[list[Item]]:
    """Groups of items that can each be one subgraph.

    Args:
        items: in topological order of their outputs; so are those of every group.

    """
    # The contracted graph's vertices: an item stands at its output, another op at itself.
    # Everything else (boundary quantizes and dequantizes, inputs) passes through.
    item_at = {item.output: item for item in items}
    inner = {node for item in item_at.values() for node in item.nodes}
    produced_by: dict[Node, tuple[Node, ...]] = {}
    grouping: Grouping[Node] = Grouping()
    for node in graph.nodes:
        item = item_at.get(node)
        if item is not None:
            producers = _producers(item.nodes, produced_by, set(item.nodes))
            grouping.add(node, producers, [s for s in item.sources if s in item_at])
            produced_by[node] = (node,)
        elif is_op(node) and node not in inner:
            grouping.add(node, _producers((node,), produced_by, set()), [])
            produced_by[node] = (node,)
        elif node not in inner:
            produced_by[node] = _producers((node,), produced_by, set())
    groups = [[node for node in group if node in item_at] for group in grouping.groups()]
    order = {node: i for i, node in enumerate(item_at)}
    return [[item_at[node] for node in sorted(g, key=order.__getitem__)] for g in groups if g]


def only_moves_data(group: Iterable[Item]) -> bool:
    """Whether a group is not worth a subgraph: it computes nothing, and costs a boundary."""
    return all(item.data_movement for item in group)


def _producers(
    nodes: Iterable[Node], produced_by: dict[Node, tuple[Node, ...]], own: set[Node]
) -> tuple[Node, ...]:
    found: dict[Node, None] = {}
    for node in nodes:
        for read in node.all_input_nodes:
            if read not in own:
                found.update(dict.fromkeys(produced_by[read]))
    return tuple(found)


@dataclass
class _Group(Generic[T]):
    members: list[T] = field(default_factory=list)
    ancestors: int = 0  # bit set of group ids


class Grouping(Generic[T]):
    """Groups items given in topological order.

    An item joins the groups it is fed by, merging them, wherever that creates no cycle; larger
    groups are preferred. Cost: a bit-set operation per item as long as graphs look like networks.
    """

    def __init__(self) -> None:
        self._groups: dict[int, _Group[T]] = {}
        self._group_of: dict[T, int] = {}

    def add(self, item: T, producers: Sequence[T], joins: Sequence[T]) -> None:
        """Adds an item.

        Args:
            producers: every item it depends on directly, all added before.
            joins: those of them whose group it wants to be in; empty for an item that is never
                grouped.
        """
        fed_by = {self._group_of[p] for p in producers}
        ancestors = 0
        for group in fed_by:
            ancestors |= self._groups[group].ancestors | 1 << group
        chosen: list[int] = []
        candidates = dict.fromkeys(self._group_of[j] for j in joins)
        for group in sorted(candidates, key=lambda g: -len(self._groups[g].members)):
            if self._acyclic([*chosen, group], ancestors):
                chosen.append(group)
        if not chosen:
            home = len(self._group_of)  # item counts make fresh ids: at most one group per item
            self._groups[home] = _Group(ancestors=ancestors)
        else:
            home = self._merge(chosen, ancestors)
        self._groups[home].members.append(item)
        self._group_of[item] = home

    def groups(self) -> list[list[T]]:
        """The groups' members, in order of their first ones."""
        return [group.members for group in self._groups.values()]

    def _acyclic(self, merged: list[int], ancestors: int) -> bool:
        """Whether merging these groups, and an item with these ancestors, leaves no way out and
        back in: no outside group that is both fed by them and feeding them."""
        inside = 0
        for group in merged:
            inside |= 1 << group
            ancestors |= self._groups[group].ancestors
        return all(
            not self._groups[outside].ancestors & inside for outside in _bits(ancestors & ~inside)
        )

    def _merge(self, merged: list[int], ancestors: int) -> int:
        home = min(merged)
        inside = 0
        for group in merged:
            inside |= 1 << group
            ancestors |= self._groups[group].ancestors
        target = self._groups[home]
        grown = ancestors & ~inside
        if grown == target.ancestors and inside == 1 << home:
            return home
        target.ancestors = grown
        for group in merged:
            if group != home:
                absorbed = self._groups.pop(group)
                target.members.extend(absorbed.members)
                self._group_of.update(dict.fromkeys(absorbed.members, home))
        for other in self._groups.values():
            if other is not target and other.ancestors & inside:
                other.ancestors = other.ancestors & ~inside | 1 << home | grown
        return home


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
