"""How values flow through a planned graph: between ops, across devices, through delegates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

import torch
from torch.fx import Node

from ..backend.constants import is_constant
from ..backend.units import is_op, source_of
from .plan import Plan
from .rewrite import Boundary, tag_of, write_plan

Direction = Literal["CPU→VPU", "VPU→CPU"]
Shape = tuple[int | str, ...]  # dynamic sizes by name

_SHORT_TYPES = {torch.float32: "float32", torch.int8: "int8"}


@dataclass(frozen=True)
class Edge:
    """A value that an op, or the model's output, reads.

    Attributes:
        tensor: the op or model input that produced it; quantization in between is looked through.
        consumer: the op that reads it, or "output".
        shape: of the tensor.
        producer_subgraph, consumer_subgraph: None on the CPU, where model inputs and outputs are.
    """

    tensor: str
    consumer: str
    shape: Shape
    producer_subgraph: int | None
    consumer_subgraph: int | None

    @property
    def direction(self) -> Direction | None:
        """From one device to the other; None if both ends are on the same."""
        if (self.producer_subgraph is None) == (self.consumer_subgraph is None):
            return None
        return "CPU→VPU" if self.producer_subgraph is None else "VPU→CPU"

    @property
    def bytes(self) -> int:
        """As int8: one byte per element."""
        return prod(size for size in self.shape if isinstance(size, int))


@dataclass(frozen=True)
class Transfer:
    """A tensor that a delegate takes or gives at run time.

    A tensor that goes from one VPU subgraph to another is there twice: given, then taken.

    Attributes:
        subgraph: whose delegate.
        tensor: the op or model input that produced it.
        dtype: "float32" or "int8", what the delegate's argument really is.
        bytes: its size in that type.
    """

    direction: Direction
    subgraph: int
    tensor: str
    shape: Shape
    dtype: str
    bytes: int


def shape_of_value(node: Node) -> Shape:
    """The shape of a node's value; () if it is no single tensor."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return ()
    return tuple(size if isinstance(size, int) else str(size) for size in value.shape)


def find_edges(plan: Plan) -> Iterator[Edge]:
    """Every value an op or the output reads, in execution order. Constants do not flow."""
    subgraph_of = {node: subgraph.index for node, subgraph in plan.subgraph_of().items()}
    for node in plan.graph.nodes:
        if not is_op(node) and node.op != "output":
            continue
        for read in node.all_input_nodes:
            source = source_of(read)
            if source.op != "get_attr" and not is_constant(source):
                yield Edge(
                    source.name,
                    node.name,
                    shape_of_value(source),
                    subgraph_of.get(source),
                    subgraph_of.get(node),
                )


def find_transfers(plan: Plan, boundary: Boundary) -> Iterator[Transfer]:
    """What the delegates take and give. Writes the plan into its graph, as the partitioner does,
    and reads the marks: the plan is used up."""
    tags = write_plan(plan, "vpu", boundary)
    taken: dict[str, dict[Node, None]] = {tag: {} for tag in tags}
    given: dict[str, dict[Node, None]] = {tag: {} for tag in tags}
    for node in plan.graph.nodes:
        tag = tag_of(node)
        for read in node.all_input_nodes:
            if tag_of(read) == tag or read.op == "get_attr" or is_constant(read):
                continue
            if tag is not None:
                taken[tag][read] = None
            if (giver := tag_of(read)) is not None:
                given[giver][read] = None
    for subgraph, tag in enumerate(tags):
        for node in taken[tag]:
            yield _transfer("CPU→VPU", subgraph, node)
        for node in given[tag]:
            yield _transfer("VPU→CPU", subgraph, node)


def _transfer(direction: Direction, subgraph: int, node: Node) -> Transfer:
    value = node.meta["val"]
    return Transfer(
        direction,
        subgraph,
        source_of(node).name,
        shape_of_value(node),
        _SHORT_TYPES.get(value.dtype, str(value.dtype)),
        value.numel() * value.element_size(),
    )
