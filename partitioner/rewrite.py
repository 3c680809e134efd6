"""Writing a plan into its graph, so that it survives the way to the edge dialect.

Every node of a subgraph is marked in `meta["custom"]`, the one key that edge conversion keeps, and
moves to the `vpu::` namespace, where nothing decomposes it and no other partitioner takes it. Where
a value is shared with the outside, the quantize or dequantize at the boundary is doubled: each
subgraph owns its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from torch.fx import Graph, Node

from ..backend.arguments import shape_of
from ..backend.constants import is_constant
from ..backend.namespace import mirror_of
from ..backend.units import Unit, is_dequantize, is_quantization, is_quantize
from .plan import Plan

Boundary = Literal["float", "int8"]
_KEY = "vpu_subgraph"
_ORIGIN = ("stack_trace", "nn_module_stack")


def check_boundary(boundary: str) -> None:
    if boundary not in get_args(Boundary):
        raise ValueError(f'boundary is {boundary!r}; it must be "float" or "int8"')


def tag_of(node: Node) -> str | None:
    """The subgraph a node was planned into; None if it stays on the CPU."""
    tag: str | None = node.meta.get("custom", {}).get(_KEY)
    return tag


def write_plan(plan: Plan, prefix: str, boundary: Boundary) -> dict[str, list[str]]:
    """Edits plan.graph.

    Args:
        prefix: of the tags: subgraph i is `{prefix}_{i}`.
        boundary: "float": boundary quantizes and dequantizes belong to the subgraph, so that it
            takes and gives float32. "int8": they stay outside.
    Returns:
        For every tag, the names of its ops.
    """
    computed = {unit.quantize for subgraph in plan.subgraphs for unit in subgraph.units}
    tags = {f"{prefix}_{subgraph.index}": subgraph for subgraph in plan.subgraphs}
    _complete_origins(plan.graph)
    for tag, subgraph in tags.items():
        for unit in subgraph.units:
            _mark_unit(unit, tag, plan.graph)
        if boundary == "float":
            _take_input_quantizes(computed, tag, plan.graph)
    if boundary == "float":
        for tag, subgraph in tags.items():
            for unit in subgraph.units:
                _take_output_dequantize(unit.quantize, tag, plan.graph)
    return {tag: [node.name for node in subgraph.ops] for tag, subgraph in tags.items()}


def _complete_origins(graph: Graph) -> None:
    """Says of every quantize and dequantize which line of the model it belongs to, where torchao
    has not: that of the op beside it. ExecuTorch's `emit_stacktrace` wants it of each node."""
    for node in graph.nodes:
        if is_quantization(node):
            beside = [*node.all_input_nodes, *node.users]
            for key in _ORIGIN:
                known = next((n.meta[key] for n in beside if n.meta.get(key)), None)
                if known and not node.meta.get(key):
                    node.meta[key] = known


def _mark_unit(unit: Unit, tag: str, graph: Graph) -> None:
    """Marks a unit's nodes, and gives it dequantizes of its own."""
    members = {*unit.nodes, unit.quantize}
    dequantizes = list(unit.dequantizes)
    if unit.chain is not None and (weight := unit.chain.op.weight(unit.root)) is not None:
        dequantizes.append(weight)
    for dequantize in dict.fromkeys(dequantizes):
        _mark(_owned(dequantize, members.__contains__, graph), tag)
    if unit.chain is not None:
        bias = unit.chain.op.bias(unit.root)
        computed_with = {*members, *dequantizes, *([] if bias is None else [bias])}
        for node in unit.nodes:
            _name_shapes(node, computed_with)
    for node in members:
        _mark(node, tag)


def _name_shapes(node: Node, computed_with: set[Node]) -> None:
    """Puts its shape for an operand of which a call reads no more, such as view_as's second: the
    tensor itself need not come to the VPU."""
    node.args = tuple(
        list(shape_of(arg))
        if isinstance(arg, Node) and arg not in computed_with and not is_constant(arg)
        else arg
        for arg in node.args
    )


def _take_input_quantizes(computed: set[Node], tag: str, graph: Graph) -> None:
    """Marks the quantizes of float values from outside: one for all readers in the subgraph."""
    reads = {
        node.all_input_nodes[0]: None
        for node in graph.nodes
        if is_dequantize(node) and tag_of(node) == tag
    }
    for source in reads:
        if is_quantize(source) and source not in computed:
            _mark(_owned(source, lambda user: tag_of(user) == tag, graph), tag)


def _take_output_dequantize(quantize: Node, tag: str, graph: Graph) -> None:
    """Marks one dequantize for all float readers outside, if there are any."""
    outside = [user for user in quantize.users if is_dequantize(user) and tag_of(user) is None]
    if not outside:
        return
    first, *others = outside
    quantize.append(first)
    for other in others:
        other.replace_all_uses_with(first)
        graph.erase_node(other)
    _mark(first, tag)


def _owned(node: Node, inside: Callable[[Node], bool], graph: Graph) -> Node:
    """`node`, or a copy of it for the readers inside if it has others."""
    readers = [user for user in node.users if inside(user)]
    if len(readers) == len(node.users):
        return node
    with graph.inserting_after(node):
        copy = graph.node_copy(node)
    copy.meta = {**node.meta, "custom": dict(node.meta.get("custom", {}))}
    for reader in readers:
        reader.replace_input_with(node, copy)
    return copy


def _mark(node: Node, tag: str) -> None:
    node.target = mirror_of(node)
    node.meta["custom"] = {**node.meta.get("custom", {}), _KEY: tag}
