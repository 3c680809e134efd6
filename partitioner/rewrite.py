"""Writing a plan into its graph, so that it survives the way to the edge dialect.

Every node of a subgraph is marked in `meta["custom"]`, the one key that edge conversion keeps, and
moves to the `vpu::` namespace, where nothing decomposes it and no other partitioner takes it. Where
a value is shared with the outside, the quantize or dequantize at the boundary is doubled: each
subgraph owns its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from torch.fx import Graph, Node, map_arg

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
        dequantizes = [node for unit in subgraph.units for node in _mark_unit(unit, tag)]
        if boundary == "float":
            _take_input_quantizes(sorted(dequantizes), computed, tag)
    if boundary == "float":
        quantizes = {
            unit.quantize: tag for tag, subgraph in tags.items() for unit in subgraph.units
        }
        _take_output_dequantizes(quantizes, plan.graph)
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


def _mark_unit(unit: Unit, tag: str) -> list[Node]:
    """Marks a unit's nodes, and gives it dequantizes of its own, which are returned."""
    members = (*unit.nodes, unit.quantize)
    readers: dict[Node, list[Node]] = {}
    for member in members:
        for read in member.all_input_nodes:
            readers.setdefault(read, []).append(member)
    dequantizes = list(unit.dequantizes)
    if unit.chain is not None and (weight := unit.chain.op.weight(unit.root)) is not None:
        dequantizes.append(weight)
    owned = {node: _owned(node, len(readers[node])) for node in dequantizes}
    _replace_inputs(members, owned)
    if unit.chain is not None:
        bias = unit.chain.op.bias(unit.root)
        computed_with = {*members, *owned.values(), *([] if bias is None else [bias])}
        for node in unit.nodes:
            _name_shapes(node, computed_with)
    for node in (*owned.values(), *members):
        _mark(node, tag)
    return list(owned.values())


def _name_shapes(node: Node, computed_with: set[Node]) -> None:
    """Puts its shape for an operand of which a call reads no more, such as view_as's second: the
    tensor itself need not come to the VPU."""
    node.args = tuple(
        list(shape_of(arg))
        if isinstance(arg, Node) and arg not in computed_with and not is_constant(arg)
        else arg
        for arg in node.args
    )


def _take_input_quantizes(dequantizes: list[Node], computed: set[Node], tag: str) -> None:
    """Marks the quantizes of float values from outside: one for all readers in the subgraph."""
    readers: dict[Node, list[Node]] = {}
    for dequantize in dequantizes:
        source = dequantize.all_input_nodes[0]
        if is_quantize(source) and source not in computed:
            readers.setdefault(source, []).append(dequantize)
    for source, inside in readers.items():
        owned = _owned(source, len(inside))
        _replace_inputs(inside, {source: owned})
        _mark(owned, tag)


def _take_output_dequantizes(quantizes: dict[Node, str], graph: Graph) -> None:
    """Marks one dequantize of each value for all its float readers outside, if there are any."""
    taken: dict[Node, Node] = {}
    for quantize, tag in quantizes.items():
        outside = [user for user in quantize.users if is_dequantize(user) and tag_of(user) is None]
        if outside:
            quantize.append(outside[0])
            _mark(outside[0], tag)
            taken.update(dict.fromkeys(outside[1:], outside[0]))
    _replace_inputs(dict.fromkeys(user for node in taken for user in node.users), taken)
    for node in taken:
        graph.erase_node(node)


def _owned(node: Node, readers: int) -> Node:
    """`node`, or a copy of it for as many readers if it has others too."""
    if readers == len(node.users):
        return node
    with node.graph.inserting_after(node):
        copy = node.graph.node_copy(node)
    copy.meta = {**node.meta, "custom": dict(node.meta.get("custom", {}))}
    return copy


def _replace_inputs(readers: Iterable[Node], replacement: Mapping[Node, Node]) -> None:
    """Each reader at once: one that reads thousands is not rebuilt for every one of them."""
    for reader in readers:
        if any(replacement.get(read, read) is not read for read in reader.all_input_nodes):
            reader.args, reader.kwargs = map_arg(
                (reader.args, reader.kwargs), lambda read: replacement.get(read, read)
            )


def _mark(node: Node, tag: str) -> None:
    node.target = mirror_of(node)
    node.meta["custom"] = {**node.meta.get("custom", {}), _KEY: tag}
