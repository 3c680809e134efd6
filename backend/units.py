"""Units of a Q/DQ graph: `dequantize* -> root [-> add] [-> activation] -> quantize`.

A unit is the smallest thing the VPU executes: int8 in, int8 out, all between in high precision.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass

import torch
import torch.ao.quantization.fx._decomposed  # registers the quantized_decomposed operators
from torch._ops import OpOverload
from torch.fx import Graph, Node

from .arguments import arguments, dtype_of, shape_of
from .chains import Chain, find_chains
from .constants import constant_of, is_constant
from .decomposed import is_decomposed, why_decomposed
from .dynamic import is_size
from .namespace import aten_target, overload_of
from .numerics import QParams
from .program import INT8_MAX, INT8_MIN
from .regions import is_region, why_region
from .table import VPU_OPS, OpTable

_QD = torch.ops.quantized_decomposed
QUANTIZE = _QD.quantize_per_tensor.default
DEQUANTIZE = _QD.dequantize_per_tensor.default
QUANTIZE_PER_CHANNEL = _QD.quantize_per_channel.default
DEQUANTIZE_PER_CHANNEL = _QD.dequantize_per_channel.default
_LEFT_IN_FLOAT = "vpu_left_in_float"
# Between these every ratio of two scales, times an int32, is a finite float32.
MIN_SCALE, MAX_SCALE = 1e-9, 1e9
# torchao's observers give no smaller one.
LEAST_OBSERVED_SCALE = torch.finfo(torch.float32).eps
# What keeps fewer of its 256 levels is told of.
FEWEST_LEVELS = 16
_QUANTIZATION = {QUANTIZE, DEQUANTIZE, QUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_CHANNEL}


def is_quantize(node: Node) -> bool:
    return aten_target(node) is QUANTIZE


def is_dequantize(node: Node) -> bool:
    return aten_target(node) is DEQUANTIZE


def is_quantization(node: Node) -> bool:
    """Whether a node quantizes or dequantizes, per tensor or per channel."""
    return aten_target(node) in _QUANTIZATION


def leave_in_float(node: Node, reason: str) -> None:
    """Says why the quantizer leaves an op in float, in the one key of its metadata that is still
    there when the Q/DQ graph is planned."""
    node.meta["custom"] = {**node.meta.get("custom", {}), _LEFT_IN_FLOAT: reason}


def is_op(node: Node) -> bool:
    """Whether a node computes something: a call with a result, no quantize or dequantize, nor the
    computation of a shape."""
    if node.op != "call_function" or is_size(node):
        return False
    target = aten_target(node)
    return target is None or (target not in _QUANTIZATION and _has_result(target))


@functools.cache
def _has_result(target: OpOverload) -> bool:
    return len(target._schema.returns) > 0  # assertions have none


def source_of(node: Node) -> Node:
    """The op, input or constant whose value a node holds, seen through quantization."""
    while is_quantization(node):
        node = node.all_input_nodes[0]
    return node


def qparams(node: Node) -> QParams:
    """Scale and zero point of a per-tensor quantize or dequantize node."""
    call = arguments(node)
    return QParams(float(call.scale), int(call.zero_point))


@dataclass(frozen=True)
class Unit:
    """One unit.

    Attributes:
        chain: its float ops; None for a requantization, `dequantize -> quantize` alone.
        dequantizes: the dequantize node of every activation operand, in the instruction's order,
            a fused add's other operand last.
        quantize: the quantize node of its output.
    """

    chain: Chain | None
    dequantizes: tuple[Node, ...]
    quantize: Node

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The ops: what a report counts. Empty for a requantization."""
        return () if self.chain is None else self.chain.nodes

    @property
    def root(self) -> Node:
        assert self.chain is not None
        return self.chain.root

    @property
    def sources(self) -> tuple[Node, ...]:
        """The int8 values of the activation operands."""
        return tuple(dequantize.all_input_nodes[0] for dequantize in self.dequantizes)

    @property
    def name(self) -> str:
        if self.chain is None:
            return "requantize"
        return "+".join(_op_name(node) for node in self.chain.nodes)

    @property
    def data_movement(self) -> bool:
        return self.chain is None or self.chain.moves_data

    def input_qparams(self, i: int) -> QParams:
        return qparams(self.dequantizes[i])

    @property
    def output_qparams(self) -> QParams:
        return qparams(self.quantize)

    @property
    def output_clamp(self) -> tuple[int, int]:
        """(out_min, out_max): the fused activation in the quantized domain.

        quantize() is monotone, so clamping real values and then quantizing equals clamping the
        quantized value between the quantized bounds.
        """
        if self.chain is None or self.chain.clamp is None:
            return INT8_MIN, INT8_MAX
        low, high = self.output_qparams.quantize(self.chain.clamp)
        return int(low), int(high)


def _op_name(node: Node) -> str:
    target = overload_of(node)
    return node.name if target is None else target._schema.name.split("::")[1].rstrip("_")


@dataclass(frozen=True)
class Units:
    """What `find_units` found: units in topological order of their outputs, and for every other op
    the reason why it is not on the VPU."""

    units: list[Unit]
    reasons: dict[Node, str]


def find_units(graph: Graph, ops: OpTable) -> Units:
    """Finds the units of a Q/DQ graph, ATen or edge dialect."""
    chains, reasons = find_chains(graph, ops)
    by_output: dict[Node, Unit] = {}
    for chain in chains.values():
        unit, reason = _unit_of(chain)
        if unit is None:
            reasons[chain.root] = chain.root.meta.get("custom", {}).get(_LEFT_IN_FLOAT, reason)
            fused = f"belongs to {chain.root.name}, which is on the CPU"
            reasons.update(dict.fromkeys(chain.nodes[1:], fused))
        else:
            by_output[unit.quantize] = unit
    for node in graph.nodes:
        if is_quantize(node) and is_dequantize(node.all_input_nodes[0]):
            dequantize = node.all_input_nodes[0]
            if _int8_problem(node) is None and _int8_problem(dequantize) is None:
                by_output[node] = Unit(None, (dequantize,), node)
    units = [by_output[node] for node in graph.nodes if node in by_output]
    on_vpu = {node for unit in units for node in unit.nodes}
    for node in graph.nodes:
        if is_op(node) and node not in on_vpu:
            reasons.setdefault(node, why_unknown(node))
    return Units(units, reasons)


def why_unknown(node: Node) -> str:
    """Why an op that no family in use covers is not on the VPU."""
    target = aten_target(node)
    if target in VPU_OPS:
        return "left out of the ops given"
    if is_region(node):
        return why_region(node)
    if is_decomposed(node):
        return why_decomposed(node)
    if node.target is operator.getitem:
        return f"an output of {node.all_input_nodes[0].name}, which is on the CPU"
    return "not in the op table"


def _unit_of(chain: Chain) -> tuple[Unit | None, str]:
    op, root = chain.op, chain.root
    operands = op.activations(root)
    if chain.residual is not None:
        operands = [*operands, chain.residual]
    for operand in operands:
        if not is_dequantize(operand):
            told = root.meta.get("custom", {}).get(_LEFT_IN_FLOAT)
            return (
                None,
                told or f"its input {operand.name} is float: the quantizer left this op out",
            )
        if problem := _int8_problem(operand):
            return None, f"its input {source_of(operand).name} {problem}"
    users = list(chain.last.users)
    if len(users) != 1 or not is_quantize(users[0]):
        taker = next((u for u in users if not is_quantize(u)), None)
        what = "the model's output" if taker is None or taker.op == "output" else taker.name
        return None, f"its output is not quantized before {what}"
    if problem := _int8_problem(users[0]):
        return None, f"its output {problem}"
    if problem := _weight_problem(op.weight(root)):
        return None, problem
    bias = op.bias(root)
    if bias is not None and not is_constant(bias):
        return None, f"its bias {bias.name} is not a constant"
    unit = Unit(chain, tuple(operands), users[0])
    return (None, problem) if (problem := op.check_unit(unit)) else (unit, "")


def _int8_problem(node: Node) -> str | None:
    call = arguments(node)
    if call.dtype != torch.int8 or (call.quant_min, call.quant_max) != (INT8_MIN, INT8_MAX):
        found = f"{call.dtype} [{call.quant_min}, {call.quant_max}]"
        return f"is quantized to {found}, not int8 [-128, 127]"
    if getattr(call, "out_dtype", None) not in (None, torch.float32):
        return f"is dequantized to {call.out_dtype}, not float32"
    try:
        shape = shape_of(node)
    except ValueError as error:
        return f"cannot be planned ahead: {error}"
    if dtype_of(node.all_input_nodes[0]) not in (torch.int8, torch.float32):
        return f"is {dtype_of(node.all_input_nodes[0])}, not float32"
    if 0 in shape:
        return f"is empty: shape {list(shape)}"
    if not MIN_SCALE <= call.scale <= MAX_SCALE:
        return f"has the scale {call.scale}, outside [{MIN_SCALE}, {MAX_SCALE}]"
    return None


def _weight_problem(weight: Node | None) -> str | None:
    if weight is None:
        return None
    target = aten_target(weight)
    if target is DEQUANTIZE:
        call = arguments(weight)
        if call.zero_point != 0 or call.dtype != torch.int8:
            found = f"{call.dtype} with zero point {call.zero_point}"
            return f"its weight is quantized to {found}, not symmetric int8"
    elif target is DEQUANTIZE_PER_CHANNEL:
        call = arguments(weight)
        if call.axis != 0 or call.dtype != torch.int8:
            found = f"{call.dtype} along axis {call.axis}"
            return f"its weight is quantized to {found}, not int8 along axis 0"
    else:
        return f"its weight {weight.name} is not quantized"
    if call.quant_min < -127:
        return f"its weight is quantized from {call.quant_min}; symmetric int8 starts at -127"
    if not all(is_constant(node) for node in weight.all_input_nodes):
        return "its weight is computed by the model, not a constant"
    if target is DEQUANTIZE_PER_CHANNEL and call.zero_points is not None:
        zero_points = constant_of(call.zero_points)
        if zero_points is not None and bool(zero_points.any()):
            return "its weight has zero points other than 0"
    return None
