"""Unary functions: any of them is one 256-entry table, computed at lowering from the float function
itself. The clamps among them (relu, relu6, hardtanh, clamp) can be fused behind another op too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, shape_of
from ..layout import physical
from ..namespace import aten_target
from ..numerics import ALL_CODES, QParams, look_up, requantize_table
from ..program import Instruction, Operand, Tensor
from ..table import EVERYTHING, Link, OutputRange, Reads, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten


@dataclass
class Lookup(Instruction):
    """y = table[x + 128]. inputs: x, table."""

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        x, table = inputs
        return look_up(table.data, x.data)


def lower_lookup(unit: Unit, builder: ProgramBuilder, table: NDArray) -> None:
    """Emits a Lookup of the unit's first operand, in whatever layout it is stored."""
    source = unit.sources[0]
    layout = builder.layout(source)
    inputs = [builder.input(source, layout), builder.constant(table)]
    shape = physical(shape_of(unit.quantize), layout)
    builder.define(unit, builder.emit(Lookup(), inputs, shape, unit.output_qparams), layout)


def lower_requantize(unit: Unit, builder: ProgramBuilder) -> None:
    """`dequantize -> quantize` alone: the same value under other parameters."""
    lower_lookup(unit, builder, requantize_table(unit.input_qparams(0), unit.output_qparams))


def unary_table(node: Node, source: QParams, target: QParams) -> NDArray:
    """The table of a call with one tensor operand: the call itself, run on all 256 real values."""
    function = aten_target(node)
    assert function is not None
    real = torch.from_numpy(source.dequantize(ALL_CODES))
    args = [real if isinstance(a, Node) else a for a in node.args]
    kwargs = {k: real if isinstance(v, Node) else v for k, v in node.kwargs.items()}
    return target.quantize(function(*args, **kwargs).numpy())


class UnaryOp(VpuOp):
    """Base of the families that are a table of their call."""

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        table = unary_table(unit.root, unit.input_qparams(0), unit.output_qparams)
        lower_lookup(unit, builder, table)


@register
class ClampOp(UnaryOp):
    name = "clamp"
    targets = (
        aten.relu.default,
        aten.relu_.default,
        aten.relu6.default,
        aten.relu6_.default,
        aten.hardtanh.default,
        aten.hardtanh_.default,
        aten.clamp.default,
        aten.clamp_.default,
        aten.clamp_min.default,
        aten.clamp_min_.default,
        aten.clamp_max.default,
        aten.clamp_max_.default,
    )
    link = Link.ACTIVATION

    def check(self, node: Node) -> str | None:
        low, high = self.clamp(node)
        return f"its bounds are out of order: min {low} > max {high}" if low > high else None

    def can_follow(self, node: Node, producer: Node) -> bool:
        return self.check(node) is None and arguments(node).input is producer

    def reads(self, node: Node) -> Reads:
        return Reads(*self.clamp(node))

    def clamp(self, node: Node) -> tuple[float, float]:
        target = aten_target(node)
        assert target is not None
        kind = target._schema.name.removeprefix("aten::").rstrip("_")
        if kind in ("relu", "relu6"):
            return 0.0, 6.0 if kind == "relu6" else math.inf
        call = arguments(node)
        low = getattr(call, "min_val", getattr(call, "min", None))
        high = getattr(call, "max_val", getattr(call, "max", None))
        return -math.inf if low is None else float(low), math.inf if high is None else float(high)


@register
class SigmoidOp(UnaryOp):
    name = "sigmoid"
    targets = (
        aten.sigmoid.default,
        aten.sigmoid_.default,
        aten.hardsigmoid.default,
        aten.hardsigmoid_.default,
    )
    output_range = OutputRange.FIXED
    fixed = QParams(1.0 / 256.0, -128)  # the function's whole range, [0, 1)

    def reads(self, node: Node) -> Reads:
        return Reads(-6.25, 6.25)  # sigmoid(-6.25) is under half a step


@register
class TanhOp(UnaryOp):
    name = "tanh"
    targets = (aten.tanh.default, aten.tanh_.default)
    output_range = OutputRange.FIXED
    fixed = QParams(1.0 / 128.0, 0)  # [-1, 1)

    def reads(self, node: Node) -> Reads:
        return Reads(-3.125, 3.125)  # 1 - tanh(3.125) is under half a step


@register
class ActivationOp(UnaryOp):
    name = "activation"
    targets = (
        aten.leaky_relu.default,
        aten.leaky_relu_.default,
        aten.elu.default,
        aten.elu_.default,
        aten.hardswish.default,
        aten.hardswish_.default,
        aten.silu.default,
        aten.silu_.default,
        aten.gelu.default,
        aten.gelu_.default,
    )

    def reads(self, node: Node) -> Reads:
        """Below -12 they are constant to within 1e-4: all but leaky_relu, and elu stretched."""
        call = arguments(node)
        leaky = hasattr(call, "negative_slope") or getattr(call, "input_scale", 1) != 1
        return EVERYTHING if leaky else Reads(low=-12.0)
