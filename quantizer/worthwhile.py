"""What stays in float although the VPU could run it: it would lose precision and gain nothing."""

from __future__ import annotations

from collections.abc import Iterable

from torch.fx import Graph, Node

from ..backend.chains import Chain
from ..backend.grouping import ONLY_MOVES_DATA, Item, convex_groups, only_moves_data
from ..backend.inplace import is_view
from .readers import Readers
from .sentinels import brings_in, sentinel_of

JOINS_OUTPUTS = (
    "it only joins parts of the model's output, which keep a scale each: one for all of them would "
    "leave those of small values few levels"
)


def worthwhile(graph: Graph, chains: Iterable[Chain]) -> tuple[list[Chain], dict[Node, str]]:
    """Which chains of a float graph are worth quantizing.

    Args:
        chains: what could be, in topological order.
    Returns:
        (those to quantize, why the ops of the others stay in float)
    """
    kept = {chain.last: chain for chain in chains}
    reasons: dict[Node, str] = {}

    def leave(chain: Chain, reason: str) -> None:
        del kept[chain.last]
        reasons.update(dict.fromkeys(chain.nodes, reason))

    moving = {chain.last for chain in kept.values() if chain.moves_data or chain.op.joins}
    for chain in list(kept.values()):
        if chain.op.joins and not chain.moves_data and _is_output(chain.last, moving):
            leave(chain, JOINS_OUTPUTS)
    readers = Readers(list(kept.values()))
    for chain in list(kept.values()):
        sentinel = sentinel_of(chain)
        if sentinel is not None and not readers.may_saturate(chain, sentinel):
            leave(chain, brings_in(sentinel))
    settled = False
    while not settled:  # without a group, others may come together
        groups = convex_groups(graph, [_item(chain) for chain in kept.values()])
        idle = [item for group in groups if only_moves_data(group) for item in group]
        for item in idle:
            leave(kept[item.output], ONLY_MOVES_DATA)
        settled = not idle
    return list(kept.values()), reasons


def _item(chain: Chain) -> Item:
    residual = () if chain.residual is None else (chain.residual,)
    sources = (*chain.op.activations(chain.root), *residual)
    return Item(chain.nodes, sources, chain.moves_data)


def _is_output(node: Node, moving: set[Node]) -> bool:
    """Whether a value goes nowhere but out of the model, perhaps through what moves data."""
    ahead, seen = list(node.users), set(node.users)
    for reader in ahead:
        if reader in moving or is_view(reader):
            ahead += [user for user in reader.users if user not in seen]
            seen.update(reader.users)
        elif reader.op != "output":
            return False
    return bool(ahead)
