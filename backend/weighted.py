"""What convolutions and linear share: int8 weights, int32 bias, a multiplier per output channel,
and a residual fused behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from .arguments import arguments
from .constants import constant_of
from .namespace import aten_target
from .numerics import INT32_MAX, multiplier, store
from .program import INT8_MAX, Operand, Tensor
from .table import Link, VpuOp
from .units import DEQUANTIZE, Unit

if TYPE_CHECKING:
    from .builder import ProgramBuilder

RESIDUAL = 4  # among the operands of Conv2d and Linear: x, weight, bias, multiplier, residual
MAX_MULTIPLIER = 1e18  # times an int32 it is still a finite float32


@dataclass(frozen=True)
class Weights:
    """A weighted op's constants. The accumulator's scale is s_x * s_w[c]."""

    weight: NDArray[np.int8]  # as in the model: output channels first
    bias: NDArray[np.float64]  # [O], at the accumulator's scale, an integer
    bias_error: NDArray[np.float64]  # [O]: how far the rounding has moved the bias
    multiplier: NDArray[np.float32]  # [O]: s_x * s_w / s_y

    def problem(self) -> str | None:
        """Why integers cannot compute this: an overflow, or a bias too coarse for the output."""
        if bool((self.weight < -INT8_MAX).any()):
            return "one of its weights is -128; symmetric int8 starts at -127"
        magnitude = np.abs(self.weight.astype(np.int64)).reshape(len(self.weight), -1).sum(axis=1)
        bound = magnitude * 255 + np.abs(self.bias)
        if not bool((bound <= INT32_MAX).all()):  # written so that NaN is caught
            channel = int(bound.argmax())
            return (
                f"output channel {channel} could reach {bound[channel]:.10g} in the int32 "
                f"accumulator, whose limit is {INT32_MAX}"
            )
        if not bool((self.multiplier <= MAX_MULTIPLIER).all()):
            return f"its output scale is too small: multiplier {self.multiplier.max():.3g}"
        error = self.bias_error * self.multiplier
        if bool((error > 0.5).any()):
            channel = int(error.argmax())
            return (
                f"the int32 bias of output channel {channel} would be off by {error[channel]:.3g} "
                "output steps; the limit is 0.5"
            )
        return None


class WeightedOp(VpuOp):
    """Base of the weighted families: arguments `input`, `weight`, `bias`."""

    links: ClassVar[tuple[Link, ...]] = (Link.BATCH_NORM, Link.ADD, Link.ACTIVATION)

    def weight(self, node: Node) -> Node | None:
        return arguments(node).weight

    def bias(self, node: Node) -> Node | None:
        return arguments(node).bias

    def check_unit(self, unit: Unit) -> str | None:
        assert unit.chain is not None
        if Link.BATCH_NORM in unit.chain.links:
            norm = unit.chain.links[Link.BATCH_NORM].name
            return f"{norm} behind it is in training mode: quantization has not folded it"
        return weights_of(unit, self).problem()


def weights_of(unit: Unit, op: VpuOp) -> Weights:
    """Reads the constants of a weighted unit."""
    dequantize = op.weight(unit.root)
    assert dequantize is not None
    call = arguments(dequantize)
    weight = _array(dequantize.all_input_nodes[0])
    channels = weight.shape[0]
    if aten_target(dequantize) is DEQUANTIZE:
        scales = np.full(channels, call.scale, np.float64)
    else:
        scales = _array(call.scales).astype(np.float64)
    accumulator_scale = unit.input_qparams(0).scale * scales
    bias_node = op.bias(unit.root)
    bias = np.zeros(channels) if bias_node is None else _array(bias_node).astype(np.float64)
    # A channel whose weights are all zero has no scale of its own: take one its bias fits.
    zero = ~weight.reshape(channels, -1).any(axis=1)
    fitting = np.maximum(accumulator_scale, np.abs(bias) / 2**30)
    accumulator_scale = np.where(zero, fitting, accumulator_scale)
    with np.errstate(all="ignore"):  # `problem` looks at the result
        exact = bias / accumulator_scale
        rounded = np.rint(exact)
        return Weights(
            weight,
            rounded,
            np.abs(exact - rounded),
            multiplier(accumulator_scale, unit.output_qparams.scale),
        )


def _array(node: Node) -> NDArray:
    tensor = constant_of(node)
    assert tensor is not None, f"{node.name} is not a constant"
    return tensor.contiguous().numpy()


def constants(weights: Weights, weight: NDArray, builder: ProgramBuilder) -> list[int]:
    """The operands weight (in the instruction's layout), bias, multiplier."""
    bias = weights.bias.astype(np.int32)
    return [builder.constant(array) for array in (weight, bias, weights.multiplier)]


def residual_multiplier(unit: Unit) -> float:
    """s_r / s_y of the fused add's other operand; 0 without one."""
    if unit.chain is None or Link.ADD not in unit.chain.links:
        return 0.0
    return float(multiplier(unit.input_qparams(1).scale, unit.output_qparams.scale))


def requantize(
    accumulator: NDArray,
    inputs: Sequence[Operand],
    residual_multiplier: float,
    output: Tensor,
    out_min: int,
    out_max: int,
) -> NDArray[np.int8]:
    """The epilogue shared by Conv2d and Linear.

    Args:
        accumulator: integers, bias included, output channels last.
        inputs: the instruction's operands: [.., .., .., multiplier] and perhaps the residual.
    """
    f = accumulator.astype(np.int32).astype(np.float32) * inputs[3].data
    if len(inputs) > RESIDUAL:
        f = f + inputs[RESIDUAL].centered.astype(np.float32) * np.float32(residual_multiplier)
    return store(f, output.zero_point, out_min, out_max)


def integer_matmul(a: NDArray, b: NDArray) -> NDArray[np.int64]:
    """a @ b of integers, exactly: float64 holds every sum below 2^53, and uses BLAS."""
    return np.rint(a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
