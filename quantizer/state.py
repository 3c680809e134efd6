"""Buffers the model changes. Running it to calibrate must not change them for good, and torchao
folds whatever it quantizes that is computed from parameters and buffers alone; where one of them is
written to, that would freeze it at its first value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
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


@contextmanager
def state_kept(model: nn.Module) -> Iterator[None]:
    """Calibration runs the model, and so does torchao when it folds constants; the state it starts
    with is still the one to deploy."""
    saved = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, value in saved:
            buffer.copy_(value)
