"""The steps of quantization, and what tests look at after each."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torchao.quantization.pt2e import FakeQuantizeBase, ObserverBase
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from executorch_vpu import VPU_OPS, VpuQuantizer
from executorch_vpu.backend.units import find_units, is_dequantize, is_quantize

Inputs = tuple[torch.Tensor, ...]


def export(model: nn.Module, inputs: Inputs) -> GraphModule:
    return torch.export.export(model, inputs).module()


def prepare(model: nn.Module, inputs: Inputs, quantizer: VpuQuantizer | None = None) -> GraphModule:
    """Observed, not calibrated. Observers hand on what they see, so it computes what torchao's
    batch norm folding has left of the model."""
    return prepare_pt2e(export(model.eval(), inputs), quantizer or VpuQuantizer())


def convert(prepared: GraphModule, inputs: Inputs) -> GraphModule:
    """Calibrates on `inputs`, converts, and exports again, so that every node has its shape."""
    with torch.no_grad():
        prepared(*inputs)
    return export(convert_pt2e(prepared), inputs)


def quantize(
    model: nn.Module, inputs: Inputs, quantizer: VpuQuantizer | None = None
) -> GraphModule:
    return convert(prepare(model, inputs, quantizer), inputs)


def observer_sites(prepared: GraphModule) -> list[str]:
    """Each activation observer as "tensor -> reader, reader"; those of weights are left out."""
    modules = dict(prepared.named_modules(remove_duplicate=False))
    return [
        f"{node.args[0].name} -> {', '.join(user.name for user in node.users)}"
        for node in prepared.graph.nodes
        if node.op == "call_module"
        and isinstance(modules[node.target], (ObserverBase, FakeQuantizeBase))
        and node.args[0].op != "get_attr"
    ]


def unit_names(quantized: GraphModule) -> list[str]:
    """The units, such as "conv2d+relu", in order."""
    return [unit.name for unit in find_units(quantized.graph, VPU_OPS).units]


def cpu_reasons(quantized: GraphModule) -> dict[str, str]:
    reasons = find_units(quantized.graph, VPU_OPS).reasons
    return {node.name: reason for node, reason in reasons.items()}


def find(graph: Graph, target: object) -> Node:
    """The only call of an operator."""
    (node,) = (node for node in graph.nodes if node.target is target)
    return node


def parameters_of(quantized: GraphModule, target: object) -> list[tuple[float, int]]:
    """(scale, zero point) of the operands of an operator's only call, in order, then of its result.
    Weights, quantized per channel, and floats are left out."""
    node = find(quantized.graph, target)
    around = [*node.all_input_nodes, *node.users]
    return [(n.args[1], n.args[2]) for n in around if is_dequantize(n) or is_quantize(n)]
