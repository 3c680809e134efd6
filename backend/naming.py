"""How messages name a tensor."""

from __future__ import annotations

from torch.fx import Node


def name_of(node: Node) -> str:
    """The node of a tensor and the module that computes it: "conv2d (in module layer1.0.conv1)"."""
    if node.op == "placeholder":
        return f"the input {node.name}"
    if node.op == "get_attr":
        return str(node.target)
    stack = node.meta.get("nn_module_stack") or {}
    path = next((path for path, _ in reversed(list(stack.values())) if path), "")
    path = path.replace("L['self'].", "")
    return f"{node.name} (in module {path})" if path else node.name
