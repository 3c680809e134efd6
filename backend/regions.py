"""Regions: parts of `forward` under a context manager, which torch.export keeps as one call.

Neither quantizer nor plan sees the ops inside. Where the context changes nothing in inference, the
region is dissolved into the graph around it; what the others are, `why_region` says.
"""

from __future__ import annotations

import operator
from typing import Any

from torch._higher_order_ops.wrap import wrap_with_autocast, wrap_with_set_grad_enabled
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node


def dissolve_regions(module: GraphModule) -> None:
    """Puts the ops of regions that change no value into the graph around them: `torch.no_grad()`,
    `torch.enable_grad()` and `torch.autocast(enabled=False)`. Edits `module`."""
    pending = list(module.graph.nodes)
    while pending:
        pending = [inner for node in pending for inner in _dissolve(module, node)]
    module.graph.lint()
    module.recompile()


def is_region(node: Node) -> bool:
    """Whether a node calls a part of `forward` that torch.export kept as a graph of its own."""
    return node.op == "call_function" and isinstance(node.target, HigherOrderOperator)


def why_region(node: Node) -> str:
    """Why a region is on the CPU, and what helps."""
    if node.target is wrap_with_set_grad_enabled:
        return (
            "a region under torch.no_grad() or enable_grad(), which torch.export keeps whole: "
            "export the model under torch.no_grad(), or take that out of forward"
        )
    if node.target is wrap_with_autocast:
        _, dtype, *_ = node.args
        return (
            f"a region under torch.autocast, which computes in {dtype or 'another type'}: take "
            "that out of forward; the VPU's ops are quantized from float32"
        )
    return f"control flow ({node.target}): what is inside runs on the CPU"


def _dissolve(module: GraphModule, call: Node) -> list[Node]:
    """Replaces a region's call by the region's ops, and returns them; does nothing to another node
    or to a region that changes values."""
    if call.target is wrap_with_set_grad_enabled:
        body, operands = call.args[1], call.args[2:]
    elif call.target is wrap_with_autocast and call.args[2] is False:
        body, operands = call.args[4], call.args[5:]
    else:
        return []
    assert isinstance(body, Node)
    inner = module.get_submodule(str(body.target))
    assert isinstance(inner, GraphModule)
    given = iter(operands)
    copies: dict[Node, Node] = {}
    with module.graph.inserting_before(call):
        for node in inner.graph.nodes:
            if node.op == "placeholder":
                operand = next(given)
                assert isinstance(operand, Node)
                copies[node] = operand
            elif node.op != "output":
                copies[node] = module.graph.node_copy(node, copies.__getitem__)
                if node.op == "get_attr":  # a region inside the region, or a constant
                    _adopt(module, inner, copies[node])
    results: Any = inner.graph.output_node().args[0]
    for user in list(call.users):
        assert user.target is operator.getitem
        position: Any = user.args[1]
        user.replace_all_uses_with(copies[results[position]])
        module.graph.erase_node(user)
    module.graph.erase_node(call)
    if not body.users:
        module.graph.erase_node(body)
    return [copy for node, copy in copies.items() if node.op == "call_function"]


def _adopt(module: GraphModule, inner: GraphModule, node: Node) -> None:
    """Gives `module` the attribute of `inner` that a copied get_attr node reads."""
    name = path = str(node.target)
    suffix = 0
    while hasattr(module, name):
        suffix += 1
        name = f"{path.replace('.', '_')}_{suffix}"
    value: object = inner
    for part in path.split("."):
        value = getattr(value, part)
    setattr(module, name, value)
    node.target = name
