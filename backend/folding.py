"""Computing what depends on constants alone, before anything is quantized.

A weight that the model computes (`w * mask`, `w.t()`, pruning, spectral_norm, low-rank updates) or
a mask made of `torch.full` and `triu` is one tensor as far as the program is concerned. Left as
ops, its parts would look like activations, and torchao could not fold the weight.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, map_arg

from .inplace import names_of, writes
from .namespace import overload_of

# A tensor made of little (arange, expand) is not worth storing beyond so many elements.
MAX_GROWN_ELEMENTS = 2**22


def constant_nodes(graph: Graph, trained: bool = False) -> set[Node]:
    """The nodes whose values depend on parameters, buffers and literals alone.

    Not among them: memory the model writes to from its inputs, or that outlives the call (state);
    what is random; and, if `trained`, whatever depends on a parameter, which training will change.
    """
    position = {node: i for i, node in enumerate(graph.nodes)}
    calls_on = _calls_on(graph)
    names = {base: names_of(base) for base in calls_on}
    # State, and what is trained.
    changing = {n for base in calls_on if base.op != "call_function" for n in names[base]}
    if trained:
        changing.update(node for node in graph.nodes if _is_parameter(node))
    while True:
        constants = _depending_on_constants(graph, changing)
        before = len(changing)
        for base, calls in calls_on.items():
            last = max(position[call] for call in calls)
            # A reader that comes before the last write would see too new a value.
            read_early = any(
                position[user] < last and user not in constants
                for name in names[base]
                for user in name.users
            )
            if read_early or not constants.issuperset(calls):
                changing.update(names[base])
        if len(changing) == before:
            return constants


def _calls_on(graph: Graph) -> dict[Node, list[Node]]:
    """Memory that calls write to in place -> these calls."""
    calls_on: dict[Node, list[Node]] = {}
    for call, base in writes(graph):
        calls_on.setdefault(base, []).append(call)
    return calls_on


def _depending_on_constants(graph: Graph, changing: set[Node]) -> set[Node]:
    constants: set[Node] = set()
    for node in graph.nodes:
        stored = node.op == "get_attr" and _tensor_of(node) is not None
        computed = _is_pure(node) and constants.issuperset(node.all_input_nodes)
        if node not in changing and (stored or computed):
            constants.add(node)
    return constants


def fold_constants(model: GraphModule, trained: bool = False) -> GraphModule:
    """Replaces what depends on constants alone by parameters and buffers of its value. In place.

    Args:
        model: exported; its graph may still have in-place calls.
        trained: parameters will be trained, so that nothing that depends on one is folded.
    Returns:
        `model`.
    """
    graph = model.graph
    constants = constant_nodes(graph, trained)
    for node in list(graph.nodes):
        if _asserts(node) and constants.issuperset(node.all_input_nodes):
            graph.erase_node(node)  # what export has checked of constants stays true
    computed = [node for node in graph.nodes if node in constants and node.op == "call_function"]
    values = _values(computed)
    storable = _worth_storing(computed, values)
    left = {n for n in computed if n not in storable and isinstance(values[n], torch.Tensor)}
    # What is too large to store is computed when the program runs, the calls that fill it included.
    filled = {base: calls for base, calls in _calls_on(graph).items() if base in left}
    for name in (name for base in filled for name in names_of(base)):
        storable.pop(name, None)
        left.add(name)
    folded = [
        node
        for node in storable
        if any(user not in constants or user in left for user in node.users)
    ]
    for node in folded:
        _replace(model, node, storable[node])
    if folded:
        filling = {call for calls in filled.values() for call in calls}
        _erase_unread(model, [node for node in computed if node not in filling])
        model.recompile()
    return model


def _values(computed: list[Node]) -> dict[Node, Any]:
    """What constant calls return, in-place calls among them having had their effect."""
    values: dict[Node, Any] = {}

    def value_of(node: Node) -> Any:
        if node.op != "get_attr":
            return values[node]
        tensor = _tensor_of(node)
        return None if tensor is None else tensor.detach()

    with torch.no_grad():
        for node in computed:
            args, kwargs = map_arg((node.args, node.kwargs), value_of)
            assert callable(node.target)
            values[node] = node.target(*args, **kwargs)
    return values


def _worth_storing(computed: list[Node], values: dict[Node, Any]) -> dict[Node, torch.Tensor]:
    """The tensors among the values, but for those that are large and made of little."""
    stored: dict[Node, int] = {}  # elements of the largest stored tensor that a node is made of
    found: dict[Node, torch.Tensor] = {}
    for node in computed:
        made_of = [_tensor_of(source) for source in node.all_input_nodes if source.op == "get_attr"]
        sizes = [tensor.numel() for tensor in made_of if tensor is not None]
        sizes += [stored[source] for source in node.all_input_nodes if source in stored]
        stored[node] = max(sizes, default=0)
        value = values[node]
        large_enough = max(stored[node], MAX_GROWN_ELEMENTS)
        if isinstance(value, torch.Tensor) and value.numel() <= large_enough:
            found[node] = value
    return found


def _replace(model: GraphModule, node: Node, value: torch.Tensor) -> None:
    name = f"_folded_{node.name}"
    while hasattr(model, name):  # folded before
        name += "_"
    # Its own memory: values of the program may be views of each other, or of one element. A
    # parameter where it can be, as torchao expects of a weight that it folds a batch norm into.
    own = value.clone(memory_format=torch.contiguous_format)
    if own.is_floating_point():
        model.register_parameter(name, torch.nn.Parameter(own, requires_grad=False))
    else:
        model.register_buffer(name, own)
    with model.graph.inserting_before(node):
        constant = model.graph.get_attr(name)
    constant.meta = dict(node.meta)
    fake = node.meta.get("val")
    if isinstance(fake, torch.Tensor) and not fake.is_contiguous():
        constant.meta["val"] = fake.clone(memory_format=torch.contiguous_format)
    node.replace_all_uses_with(constant)


def _erase_unread(model: GraphModule, computed: list[Node]) -> None:
    graph = model.graph
    for node in reversed(computed):
        if not node.users:
            graph.erase_node(node)
    targets: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            targets.setdefault(str(node.target), []).append(node)
    for target, nodes in targets.items():
        if any(node.users for node in nodes):
            continue
        for node in nodes:
            graph.erase_node(node)
        module, _, name = target.rpartition(".")
        delattr(model.get_submodule(module), name)


def _is_pure(node: Node) -> bool:
    """Whether a call gives the same tensors whenever it has the same operands."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    overload = overload_of(node)
    return (
        overload is not None
        and torch.Tag.nondeterministic_seeded not in overload.tags
        and len(overload._schema.returns) > 0
        and isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))
        and overload.namespace == "aten"
    )


def _asserts(node: Node) -> bool:
    overload = overload_of(node)
    return overload is not None and overload._schema.name.startswith("aten::_assert")


def _is_parameter(node: Node) -> bool:
    tensor = _tensor_of(node) if node.op == "get_attr" else None
    return tensor is not None and tensor.requires_grad


def _tensor_of(node: Node) -> torch.Tensor | None:
    value: object = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name, None)
    return value if isinstance(value, torch.Tensor) else None
