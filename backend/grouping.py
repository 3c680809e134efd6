"""Convex grouping: which units can share a subgraph.

A subgraph is executed in one go, so no path may leave it and come back. Keeping each group convex
is not enough, two groups could feed each other; so reachability is kept on the contracted graph,
where a group is one node, and a merge must leave that graph acyclic.

The quantizer asks on the float graph, the plan on the Q/DQ graph: so they agree on what only moves
data, and stays on the CPU.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
class _Group:
    """Bit sets of group ids, in which a group that others were merged into has all their ids."""

    ids: int
    ancestors: int
    feeds: int = 0  # direct successors; perhaps groups that are merged into others by now
    size: int = 0


class Grouping(Generic[T]):
    """Groups items given in topological order.

    An item joins the groups it is fed by, merging them, wherever that creates no cycle; larger
    groups are preferred. Cost: a few bit-set operations per item. When a group gains ancestors, all
    it feeds gains them too; that is little as long as graphs look like networks, and nothing for
    items that no later one joins a group behind, which wait until one does.
    """

    def __init__(self) -> None:
        self._groups: list[_Group] = []  # by id: the group itself, or the one it was merged into
        self._id_of: dict[T, int] = {}
        self._waiting: dict[T, Sequence[T]] = {}  # item without a group yet -> its producers
        self._position: dict[T, int] = {}

    def add(self, item: T, producers: Sequence[T], joins: Sequence[T]) -> None:
        """Adds an item.

        Args:
            producers: every item it depends on directly, all added before.
            joins: those of them whose group it wants to be in; empty for an item that is never
                grouped.
        """
        self._position[item] = len(self._position)
        if joins:
            for needed in self._waiting_behind(producers):
                self._place(needed, self._waiting.pop(needed), [])
            self._place(item, producers, joins)
        else:
            self._waiting[item] = producers

    def groups(self) -> list[list[T]]:
        """The groups' members, in order of their first ones."""
        members: dict[object, list[T]] = {}
        for item in self._position:
            group = item if item in self._waiting else id(self._groups[self._id_of[item]])
            members.setdefault((item in self._waiting, group), []).append(item)
        return list(members.values())

    def _waiting_behind(self, producers: Sequence[T]) -> list[T]:
        """The items without a group that these depend on, themselves included, in order."""
        found: set[T] = set()
        reached = list(producers)
        while reached:
            item = reached.pop()
            if item in self._waiting and item not in found:
                found.add(item)
                reached += self._waiting[item]
        return sorted(found, key=self._position.__getitem__)

    def _place(self, item: T, producers: Sequence[T], joins: Sequence[T]) -> None:
        """Gives an item a group, when all its producers have one."""
        fed_by = self._groups_of(producers)
        merged = _Group(0, 0)
        for group in fed_by:
            merged.ancestors |= group.ancestors | group.ids
        chosen: list[_Group] = []
        for group in sorted(self._groups_of(joins), key=lambda group: -group.size):
            joined = _joined(merged, group)
            # No way out and back in: nothing outside is both fed by the group and feeding it.
            if not joined.feeds & joined.ancestors & ~joined.ids:
                merged = joined
                chosen.append(group)
        home = self._merge(chosen, merged) if chosen else self._new(merged)
        home.size += 1
        for group in fed_by:
            if not group.ids & home.ids:
                group.feeds |= home.ids
        self._id_of[item] = _lowest(home.ids)

    def _groups_of(self, items: Sequence[T]) -> list[_Group]:
        """The groups of some items, each once."""
        ids = dict.fromkeys(self._id_of[item] for item in items)
        return list({id(group): group for group in map(self._groups.__getitem__, ids)}.values())

    def _new(self, group: _Group) -> _Group:
        group.ids = 1 << len(self._groups)
        self._groups.append(group)
        return group

    def _merge(self, chosen: list[_Group], merged: _Group) -> _Group:
        """Makes one group of the chosen ones, of which `merged` has the sum."""
        home = chosen[0]
        ancestors = merged.ancestors & ~merged.ids
        grown = (home.ids, home.ancestors) != (merged.ids, ancestors)
        for group in chosen[1:]:
            for identifier in _bits(group.ids):
                self._groups[identifier] = home
        home.ids, home.ancestors = merged.ids, ancestors
        home.feeds, home.size = merged.feeds & ~merged.ids, merged.size
        if grown:
            self._pass_on(home)
        return home

    def _pass_on(self, group: _Group) -> None:
        """Gives a group's ids and ancestors to all that it feeds, directly or not."""
        passed, reached = group.ids | group.ancestors, [group]
        while reached:
            for identifier in _bits(reached.pop().feeds):
                fed = self._groups[identifier]
                if passed & ~fed.ancestors:
                    fed.ancestors |= passed
                    reached.append(fed)


def _joined(a: _Group, b: _Group) -> _Group:
    return _Group(a.ids | b.ids, a.ancestors | b.ancestors, a.feeds | b.feeds, a.size + b.size)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
