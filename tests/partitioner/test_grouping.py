"""Convex grouping on random graphs, with ExecuTorch's CapabilityBasedPartitioner as the oracle."""

import operator
import random

import pytest
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from executorch_vpu.backend.grouping import Grouping

Edges = dict[int, list[int]]


def group(edges: Edges, on_vpu: set[int]) -> list[list[int]]:
    """`edges`: item -> its producers, in topological order."""
    grouping: Grouping[int] = Grouping()
    for item, producers in edges.items():
        joins = [p for p in producers if p in on_vpu] if item in on_vpu else []
        grouping.add(item, producers, joins)
    return [g for g in grouping.groups() if g[0] in on_vpu]


def contracted_order(edges: Edges, groups: list[list[int]]) -> list[int]:
    """A topological order of the graph with every group as one node; raises on a cycle."""
    home = {item: item for item in edges} | {item: g[0] for g in groups for item in g}
    waits: dict[int, set[int]] = {home[item]: set() for item in edges}
    for item, producers in edges.items():
        waits[home[item]] |= {home[p] for p in producers} - {home[item]}
    order: list[int] = []
    while waits:
        ready = [node for node, on in waits.items() if not on - set(order)]
        if not ready:
            raise AssertionError(f"cycle among {sorted(waits)}")
        order += ready
        for node in ready:
            del waits[node]
    return order


def random_graph(rng: random.Random) -> tuple[Edges, set[int]]:
    size = rng.randint(2, 40)
    edges = {
        i: sorted(rng.sample(range(max(0, i - 6), i), min(i, rng.randint(1, 3))))
        for i in range(size)
    }
    density = rng.choice([0.3, 0.6, 0.9])
    return edges, {i for i in range(size) if rng.random() < density}


def crossings(edges: Edges, groups: list[list[int]]) -> int:
    home = {item: n for n, g in enumerate(groups) for item in g}
    return sum(home.get(p, -1) != home.get(item, -1) for item, ps in edges.items() for p in ps)


def oracle(edges: Edges, on_vpu: set[int]) -> list[list[int]]:
    graph = Graph()
    source = graph.placeholder("x")
    nodes: dict[int, Node] = {}
    for item, producers in edges.items():
        args = [nodes[p] for p in producers] or [source]
        nodes[item] = graph.call_function(operator.add if len(args) == 2 else max, tuple(args))
    graph.output(tuple(nodes.values()))

    class Support(OperatorSupportBase):
        def is_node_supported(self, submodules: object, node: Node) -> bool:
            return any(nodes[item] is node for item in on_vpu)

    partitioner = CapabilityBasedPartitioner(
        GraphModule(torch.nn.Module(), graph), Support(), allows_single_node_partition=True
    )
    item_of = {node: item for item, node in nodes.items()}
    return [[item_of[n] for n in p.nodes] for p in partitioner.propose_partitions()]


def test_a_detour_over_the_cpu_splits_a_group() -> None:
    # conv -> relu -> {sigmoid on the CPU, add}, add(sigmoid, relu)
    edges = {0: [], 1: [0], 2: [1], 3: [2, 1]}
    assert group(edges, {0, 1, 3}) == [[0, 1], [3]]


def test_two_groups_never_feed_each_other() -> None:
    # a1 -> cpu1 -> b1 and b0 -> cpu0 -> a0, with a0, a1 joined by a later consumer
    edges = {0: [], 1: [], 2: [0], 3: [1], 4: [2], 5: [3], 6: [0, 5], 7: [1, 4], 8: [6, 7]}
    groups = group(edges, {0, 1, 4, 5, 6, 7, 8})
    contracted_order(edges, groups)


def test_branches_join_where_they_meet() -> None:
    edges = {0: [], 1: [], 2: [0], 3: [1], 4: [2, 3]}
    assert [sorted(g) for g in group(edges, {0, 1, 2, 3, 4})] == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_stay_acyclic_when_groups_are_contracted(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        edges, on_vpu = random_graph(rng)
        groups = group(edges, on_vpu)
        contracted_order(edges, groups)
        assert sorted(i for g in groups for i in g) == sorted(on_vpu)


def test_crosses_no_more_than_the_capability_based_partitioner() -> None:
    rng = random.Random(0)
    ours = theirs = 0
    for _ in range(150):
        edges, on_vpu = random_graph(rng)
        ours += crossings(edges, group(edges, on_vpu))
        theirs += crossings(edges, oracle(edges, on_vpu))
    assert ours <= theirs


def test_groups_a_long_chain_whole() -> None:
    length = 3000
    edges = {i: [i - 1] if i else [] for i in range(length)}
    assert len(group(edges, set(range(length)))) == 1
