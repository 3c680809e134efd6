"""Convolutions: conv1d is a conv2d of height 1. Padding reads as the input's zero point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, rank_of, shape_of, spread
from ..layout import channels_last, physical
from ..program import INT8_MAX, INT8_MIN, Instruction, Operand, Tensor
from ..table import register
from ..units import Unit
from ..weighted import (
    RESIDUAL,
    WeightedOp,
    constants,
    integer_matmul,
    requantize,
    residual_multiplier,
    weights_of,
)

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten


@dataclass
class Conv2d(Instruction):
    """inputs: x [N, H, W, C], weight [O, KH, KW, C / groups], bias, multiplier[, residual]."""

    overwrites = RESIDUAL

    stride_h: int = 1
    stride_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    dilation_h: int = 1
    dilation_w: int = 1
    groups: int = 1
    residual_multiplier: float = 0.0
    out_min: int = INT8_MIN
    out_max: int = INT8_MAX

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        windows = self._windows(inputs[0], inputs[1].data.shape, output.shape)
        weight = inputs[1].data
        per_group = weight.shape[0] // self.groups
        accumulator = np.concatenate(
            [
                integer_matmul(
                    windows[..., g, :],
                    weight[g * per_group : (g + 1) * per_group].reshape(per_group, -1).T,
                )
                for g in range(self.groups)
            ],
            axis=-1,
        )
        accumulator = accumulator + inputs[2].data
        return requantize(
            accumulator, inputs, self.residual_multiplier, output, self.out_min, self.out_max
        )

    def _windows(self, x: Operand, weight: Sequence[int], output: Sequence[int]) -> NDArray:
        """What each output pixel sees, minus the zero point: [N, OH, OW, groups, KH * KW * C/g]."""
        n, h, w, c = x.data.shape
        _, kh, kw, _ = weight
        _, oh, ow, _ = output
        reach_h, reach_w = (kh - 1) * self.dilation_h + 1, (kw - 1) * self.dilation_w + 1
        rows, columns = (oh - 1) * self.stride_h + reach_h, (ow - 1) * self.stride_w + reach_w
        below = max(0, rows - self.pad_top - h)
        right = max(0, columns - self.pad_left - w)
        padded = np.pad(
            x.centered, ((0, 0), (self.pad_top, below), (self.pad_left, right), (0, 0))
        )[:, :rows, :columns]
        view = sliding_window_view(padded, (reach_h, reach_w), axis=(1, 2))
        view = view[
            :, :: self.stride_h, :: self.stride_w, :, :: self.dilation_h, :: self.dilation_w
        ]
        view = view.reshape(n, oh, ow, self.groups, c // self.groups, kh, kw)
        return view.transpose(0, 1, 2, 3, 5, 6, 4).reshape(n, oh, ow, self.groups, -1)


@register
class ConvOp(WeightedOp):
    name = "conv"
    targets = (aten.conv2d.default, aten.conv2d.padding, aten.conv1d.default, aten.conv1d.padding)

    def check(self, node: Node) -> str | None:
        call = arguments(node)
        if rank_of(call.input) != rank_of(call.weight):
            return f"its input has rank {rank_of(call.input)}: unbatched images are not supported"
        return None

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        call = arguments(unit.root)
        rank = rank_of(call.input)
        layout = channels_last(rank)
        spatial = rank - 2
        weights = weights_of(unit, self)
        kernel = weights.weight.shape[2:]
        stride, dilation = spread(call.stride, spatial), spread(call.dilation, spatial)
        stride_h, stride_w = _rows_and_columns(stride, 1)
        pad_top, pad_left = _rows_and_columns(_leading_padding(call.padding, kernel, dilation), 0)
        dilation_h, dilation_w = _rows_and_columns(dilation, 1)
        out_min, out_max = unit.output_clamp
        conv = Conv2d(
            stride_h,
            stride_w,
            pad_top,
            pad_left,
            dilation_h,
            dilation_w,
            call.groups,
            residual_multiplier(unit),
            out_min,
            out_max,
        )
        channels, per_group = weights.weight.shape[:2]
        oihw = weights.weight.reshape(channels, per_group, *_rows_and_columns(kernel, 1))
        x, *residual = (
            builder.view(builder.input(source, layout), _as_image(shape_of(source), layout))
            for source in unit.sources
        )
        shape = _as_image(shape_of(unit.quantize), layout)
        inputs = [x, *constants(weights, oihw.transpose(0, 2, 3, 1), builder), *residual]
        output = builder.emit(conv, inputs, shape, unit.output_qparams)
        builder.alias(unit, output, layout)


def _as_image(shape: Sequence[int], layout: tuple[int, ...]) -> tuple[int, ...]:
    """The NHWC shape of a batch of images or, with height 1, of sequences."""
    stored = physical(shape, layout)
    return stored if len(stored) == 4 else (stored[0], 1, *stored[1:])


def _rows_and_columns(spatial: Sequence[int], rows: int) -> tuple[int, int]:
    """Two spatial numbers; a sequence, an image of height 1, has only that for the columns."""
    height, width = (rows, *spatial)[-2:]
    return height, width


def _leading_padding(
    padding: str | int | Sequence[int], kernel: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    """Cells before each spatial dimension. "same" puts the odd one behind, as PyTorch does."""
    if padding == "valid":
        return (0,) * len(kernel)
    if isinstance(padding, str):
        return tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True))
    return spread(padding, len(kernel))
