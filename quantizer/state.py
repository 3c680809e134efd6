"""Buffers the model changes. torchao folds whatever it quantizes that is computed from parameters
and buffers alone; where one of them is written to, that would freeze it at its first value."""

from __future__ import annotations

from torch.fx import Graph, Node

from ..backend.inplace import writes


def changing_state(graph: Graph) -> dict[Node, str]:
    """The nodes computed from nothing but parameters and buffers of which the model writes to at
    least one; each with that buffer's name."""
    changed = {str(source.target) for _, source in writes(graph) if source.op == "get_attr"}
    constant: set[Node] = set()
    state: dict[Node, str] = {}
    for node in graph.nodes:
        sources = node.all_input_nodes
        if node.op == "get_attr":
            constant.add(node)
            if str(node.target) in changed:
                state[node] = str(node.target)
        elif node.op == "call_function" and sources and constant.issuperset(sources):
            constant.add(node)
            for source in state.keys() & set(sources):
                state[node] = state[source]
    return state
