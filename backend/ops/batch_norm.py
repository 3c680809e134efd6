"""Batch normalization that no convolution has absorbed: an affine function per channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, shape_of
from ..constants import constant_of
from ..layout import physical
from ..numerics import store
from ..program import INT8_MAX, INT8_MIN, Instruction, Operand, Tensor
from ..table import Link, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

MAX_COEFFICIENT = 1e18  # times 255 it is still a finite float32


@dataclass
class BatchNorm(Instruction):
    """store((x - zp) * multiplier[c] + offset[c]), c along `axis`.

    inputs: x, multiplier, offset.
    """

    axis: int
    out_min: int = INT8_MIN
    out_max: int = INT8_MAX

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        x = inputs[0].centered.astype(np.float32)
        along = [-1 if d == self.axis else 1 for d in range(x.ndim)]
        multiplier, offset = (operand.data.reshape(along) for operand in inputs[1:])
        return store(x * multiplier + offset, output.zero_point, self.out_min, self.out_max)


@register
class BatchNormOp(VpuOp):
    """A root in eval mode. In training mode it only follows a convolution on the way through QAT:
    convert_pt2e folds it into the weights."""

    name = "batch_norm"
    targets = (torch.ops.aten.batch_norm.default,)
    links = (Link.ACTIVATION,)
    link = Link.BATCH_NORM

    def check(self, node: Node) -> str | None:
        if arguments(node).training:
            return "it normalizes by the batch's own statistics (training=True)"
        return None

    def can_follow(self, node: Node, producer: Node) -> bool:
        call = arguments(node)
        return call.training and call.input is producer

    def check_unit(self, unit: Unit) -> str | None:
        call = arguments(unit.root)
        for name in ("running_mean", "running_var", "weight", "bias"):
            parameter = getattr(call, name)
            if parameter is not None and constant_of(parameter) is None:
                return f"its {name} is computed by the model, not a constant"
        coefficients = np.abs(_affine(unit)).max()
        if not coefficients <= MAX_COEFFICIENT:
            return (
                f"a coefficient is {coefficients:.3g} output steps; the limit is {MAX_COEFFICIENT}"
            )
        return None

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        source = unit.sources[0]
        layout = builder.layout(source)
        norm = BatchNorm(layout.index(1), *unit.output_clamp)
        constants = [builder.constant(array.astype(np.float32)) for array in _affine(unit)]
        inputs = [builder.input(source, layout), *constants]
        stored = physical(shape_of(unit.quantize), layout)
        builder.define(unit, builder.emit(norm, inputs, stored, unit.output_qparams), layout)


def _affine(unit: Unit) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(multiplier, offset) per channel, in steps of the output."""
    call = arguments(unit.root)
    mean, variance = _values(call.running_mean), _values(call.running_var)
    with np.errstate(all="ignore"):  # check_unit looks at the result
        gain = _values(call.weight, 1.0) / np.sqrt(variance + call.eps)
        shift = _values(call.bias, 0.0) - mean * gain
    output = unit.output_qparams.scale
    return gain * unit.input_qparams(0).scale / output, shift / output


def _values(node: Node | None, default: float = 0.0) -> NDArray[np.float64]:
    tensor = None if node is None else constant_of(node)
    return np.float64(default) if tensor is None else tensor.numpy().astype(np.float64)
