"""VpuQuantizer: an engine over the op table that says what is quantized, and how."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import (
    EdgeOrNode,
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from ..backend.arguments import arguments, tensor_problem
from ..backend.chains import Chain, find_chains
from ..backend.constants import constant_of, is_constant
from ..backend.folding import constant_nodes, fold_constants
from ..backend.namespace import aten_target
from ..backend.naming import name_of
from ..backend.ops import VPU_OPS
from ..backend.program import INT8_MAX, INT8_MIN
from ..backend.regions import dissolve_regions
from ..backend.table import Link, OutputRange
from ..backend.units import is_op, leave_in_float, why_unknown
from .batch_norms import is_barrier
from .config import PTQ, QAT, QuantizationConfig
from .readers import measure_as_read
from .state import changing_state
from .training import as_evaluated
from .worthwhile import worthwhile

aten = torch.ops.aten


class Skipped(NamedTuple):
    """An op the quantizer left in float: the node's name, its overload, why."""

    node: str
    op: str
    reason: str


class VpuQuantizer(Quantizer):
    """Annotates a model for the VPU, for `prepare_pt2e` or, with `is_qat`, `prepare_qat_pt2e`.

    Every chain of ops that will be one unit (convolution or linear, batch norm, add, activation;
    or any other op of the table alone) gets quantized inputs and one quantized output, and nothing
    in between. Activations are int8 [-128, 127], affine, per tensor; weights int8 [-127, 127],
    symmetric, per output channel; biases stay float and are rounded to int32 at lowering.

    Ops outside the table, calls whose attributes the VPU does not support, and tensors that are not
    float32 are left as they are; `skipped` says which and why.

    Args:
        ops: the ATen overloads the VPU has, a part of VPU_OPS; None means all of them.
        is_qat: insert fake quantizers for training instead of observers.
        config: which observers measure the ranges; by default PTQ or QAT of `config.py`.

    Attributes:
        skipped: filled by `annotate`, one entry per float op that stays float.

    Raises:
        ValueError: `ops` names an overload that is not in the table.
    """

    def __init__(
        self,
        ops: Iterable[OpOverload] | None = None,
        *,
        is_qat: bool = False,
        config: QuantizationConfig | None = None,
    ) -> None:
        self.skipped: list[Skipped] = []
        self._chains: list[Chain] = []
        self._ops = VPU_OPS.subset(ops)
        self._is_qat = is_qat
        config = config or (QAT if is_qat else PTQ)
        self._activation = QuantizationSpec(
            dtype=torch.int8,
            observer_or_fake_quant_ctr=config.activation,
            quant_min=INT8_MIN,
            quant_max=INT8_MAX,
            qscheme=torch.per_tensor_affine,
        )
        self._weight = QuantizationSpec(
            dtype=torch.int8,
            observer_or_fake_quant_ctr=config.weight,
            quant_min=-INT8_MAX,
            quant_max=INT8_MAX,
            qscheme=torch.per_channel_symmetric,
            ch_axis=0,
        )

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Dissolves regions, computes what depends on constants alone, and erases what computes
        nothing (dropout in eval mode), so that it does not stand between the ops of a unit."""
        dissolve_regions(model)
        fold_constants(model, trained=self._is_qat)
        for node in list(model.graph.nodes):
            if _is_eval_dropout(node) or is_barrier(node):
                node.replace_all_uses_with(node.all_input_nodes[0])
                model.graph.erase_node(node)
        model.recompile()
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        with as_evaluated(model.graph) if self._is_qat else nullcontext():
            chains, reasons = find_chains(model.graph, self._ops, dynamic=True)
        state = changing_state(model.graph)
        constant = constant_nodes(model.graph)
        kept = {}
        for node in model.graph.nodes:
            if node not in chains:
                continue
            reason = _FOLDED if node in constant else _problem(chains[node], state)
            if reason is None:
                kept[node] = chains[node]
            else:
                reasons.update(dict.fromkeys(chains[node].nodes, reason))
        accepted, not_worth_it = worthwhile(model.graph, kept.values())
        reasons.update(not_worth_it)
        for node, reason in not_worth_it.items():
            leave_in_float(node, reason)
        self._chains = accepted
        outputs = {chain.last for chain in accepted}
        for chain in accepted:
            self._annotate(chain, outputs)
        self.skipped = [
            Skipped(node.name, str(node.target), reasons.get(node) or why_unknown(node))
            for node in model.graph.nodes
            if _computes_floats(node) and not _is_annotated(node)
        ]
        if not accepted and self.skipped:
            warnings.warn(self._nothing(), stacklevel=2)
        return model

    def _nothing(self) -> str:
        reasons = list(dict.fromkeys(skipped.reason for skipped in self.skipped))
        shown = "; ".join(reasons[:3]) + ("; ..." if len(reasons) > 3 else "")
        return (
            f"VpuQuantizer quantizes none of the {len(self.skipped)} ops: {shown}. "
            "VpuQuantizer.skipped says which op and why."
        )

    def prepare_obs_or_fq_callback(
        self, model: GraphModule, edge_or_node_to_obs_or_fq: dict[EdgeOrNode, Any]
    ) -> None:
        measure_as_read(self._chains, edge_or_node_to_obs_or_fq)

    def validate(self, model: GraphModule) -> None:
        """
        Raises:
            ValueError: a weight holds NaN or infinity; a batch norm is in training mode, but this
                quantizer is not for training.
        """
        for chain in self._chains:
            _check_constants(chain)
        if self._is_qat:
            return
        for node in model.graph.nodes:
            if aten_target(node) is aten.batch_norm.default:
                call = arguments(node)
                if call.training and call.running_mean is not None:
                    raise ValueError(
                        f"{node.name} is in training mode. Call model.eval() before export; for "
                        "quantization-aware training use VpuQuantizer(is_qat=True) with "
                        "prepare_qat_pt2e."
                    )

    def _annotate(self, chain: Chain, outputs: set[Node]) -> None:
        """Inputs on the root, the other operand of a fused add on the add, the output on the last
        node; the edges between them stay in high precision."""
        op, root = chain.op, chain.root
        for node in chain.nodes:
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(_annotated=True)
        inputs = root.meta[Q_ANNOTATION_KEY].input_qspec_map
        for operand in op.activations(root):
            inputs[operand] = self._input_spec(operand, outputs)
        # torchao's QAT reads this map by position: activation, weight, bias.
        if (weight := op.weight(root)) is not None:
            inputs[weight] = self._weight
        if (bias := op.bias(root)) is not None:
            inputs[bias] = None
        if chain.residual is not None:
            inputs = chain.links[Link.ADD].meta[Q_ANNOTATION_KEY].input_qspec_map
            inputs[chain.residual] = self._input_spec(chain.residual, outputs)
        chain.last.meta[Q_ANNOTATION_KEY].output_qspec = self._output_spec(chain)

    def _input_spec(self, producer: Node, outputs: set[Node]) -> QuantizationSpecBase:
        """A tensor that is quantized where it is made must not be quantized again where it is read.
        Saying so is needed when it was made with fixed parameters."""
        return SharedQuantizationSpec(producer) if producer in outputs else self._activation

    def _output_spec(self, chain: Chain) -> QuantizationSpecBase:
        op, root = chain.op, chain.root
        if op.output_range is OutputRange.SHARED:
            return SharedQuantizationSpec((op.activations(root)[0], root))
        if op.output_range is OutputRange.FIXED:
            assert op.fixed is not None, f"{op.name} has fixed parameters but does not say which"
            return FixedQParamsQuantizationSpec(
                dtype=torch.int8,
                scale=op.fixed.scale,
                zero_point=op.fixed.zero_point,
                quant_min=INT8_MIN,
                quant_max=INT8_MAX,
                qscheme=torch.per_tensor_affine,
            )
        return self._activation


_FOLDED = "it depends on parameters alone: torchao folds it into what it quantizes"


def _problem(chain: Chain, state: Mapping[Node, str]) -> str | None:
    """Why a chain of the table's ops can still not be quantized."""
    op, root = chain.op, chain.root
    for operand in (*op.activations(root), op.weight(root), chain.residual):
        if operand is not None and operand in state:
            return f"its input {operand.name} holds the buffer {state[operand]}, which changes"
    if any(_is_annotated(node) for node in chain.nodes):
        return "annotated by another quantizer"
    weight, bias = op.weight(root), op.bias(root)
    if weight is not None:
        if problem := tensor_problem(weight, dynamic=True):
            return f"its weight {weight.name} {problem}"
        if not _is_made_of_constants(weight):
            return f"its weight {weight.name} is computed from the model's inputs"
    if bias is not None and not is_constant(bias):
        return f"its bias {bias.name} is not a constant"
    return None


def _check_constants(chain: Chain) -> None:
    """NaN and infinity are values of a mask, perhaps, but of no layer's parameters."""
    activations = {*chain.op.activations(chain.root), chain.residual}
    for node in (source for member in chain.nodes for source in member.all_input_nodes):
        value = None if node in activations else constant_of(node)
        if value is not None and value.is_floating_point() and not bool(value.isfinite().all()):
            raise ValueError(
                f"{node.target} holds NaN or infinity, so that {name_of(chain.root)} computes "
                "nothing that could be quantized. Was the checkpoint loaded, or has training "
                "diverged?"
            )


def _is_made_of_constants(node: Node) -> bool:
    """torchao folds what is computed from constants alone when it quantizes it."""
    if node.op == "call_function":
        return all(_is_made_of_constants(source) for source in node.all_input_nodes)
    return is_constant(node)


def _is_annotated(node: Node) -> bool:
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    return annotation is not None and annotation._annotated


def _is_eval_dropout(node: Node) -> bool:
    op = VPU_OPS.of(node)
    return op is not None and op.transparent and getattr(arguments(node), "train", None) is False


def _computes_floats(node: Node) -> bool:
    value = node.meta.get("val")
    return is_op(node) and not (isinstance(value, torch.Tensor) and not value.is_floating_point())
