"""Models exported in training mode, for quantization-aware training.

What is trained is what runs afterwards, in evaluation mode: batch norms use their running
statistics, dropouts pass their input on. The op table knows ops in evaluation mode only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.fx import Graph, Node

from ..backend.arguments import arguments
from ..backend.namespace import aten_target

aten = torch.ops.aten
_MODES = ("train", "training")


@contextmanager
def as_evaluated(graph: Graph) -> Iterator[None]:
    """The graph as it will run after training, for as long as the context lasts.

    Batch norms that torchao will fold stay in training mode: so the table tells them from those
    that will be left over, as ops of their own.
    """
    switched = [
        (node, position)
        for node in graph.nodes
        if not _will_be_folded(node) and (position := _training_flag(node)) is not None
    ]
    for node, position in switched:
        node.update_arg(position, False)
    try:
        yield
    finally:
        for node, position in switched:
            node.update_arg(position, True)


def _training_flag(node: Node) -> int | None:
    """The position of a call's argument that says it is training, if it says so."""
    op = aten_target(node)
    if op is None:
        return None
    named = zip(op._schema.arguments, node.args, strict=False)
    for position, (argument, value) in enumerate(named):
        if argument.name in _MODES and value is True:
            return position
    return None


def _will_be_folded(norm: Node) -> bool:
    """Whether convert_pt2e folds this batch norm: it knows plain 1-d and 2-d convolutions only."""
    if aten_target(norm) is not aten.batch_norm.default or arguments(norm).weight is None:
        return False
    producer = norm.all_input_nodes[0]
    convolutions = (aten.conv1d.default, aten.conv2d.default)
    return aten_target(producer) in convolutions and len(producer.users) == 1
