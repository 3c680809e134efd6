"""Parameters, buffers and lifted constants of a graph.

An ExportedProgram keeps them outside its graph. `attach_constants` hangs each on its placeholder,
so that a support check can look at a weight with nothing but the node in hand.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

_KEY = "vpu_constant"


def attach_constants(graph: Graph, program: ExportedProgram) -> None:
    """Marks the placeholders of `graph` (program's, or a copy of it) that are constants.

    A buffer the program writes to is no constant.
    """
    signature = program.graph_signature
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    mutated = set(signature.buffers_to_mutate.values())
    for node in graph.nodes:
        target = targets.get(node.name) if node.op == "placeholder" else None
        if target is None or target in mutated:
            continue
        value = program.state_dict.get(target)
        if value is None:
            value = program.constants.get(target)
        if isinstance(value, torch.Tensor):
            node.meta[_KEY] = value


def constant_of(node: Node) -> torch.Tensor | None:
    """The tensor a node stands for, if it is a constant."""
    value = node.meta.get(_KEY)
    if value is None and node.op == "get_attr":
        module = node.graph.owning_module
        value = _attribute(module, str(node.target)) if module is not None else None
    return value.detach() if isinstance(value, torch.Tensor) else None


def is_constant(node: Node) -> bool:
    return constant_of(node) is not None


def _attribute(module: GraphModule, path: str) -> object:
    value: object = module
    for name in path.split("."):
        value = getattr(value, name, None)
    return value
