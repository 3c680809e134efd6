"""Means over windows: avg_pool2d with all its ways of counting, adaptive_avg_pool2d of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from ..arguments import arguments, shape_of, size_of
from ..layout import physical
from ..namespace import aten_target
from ..numerics import INT32_MAX, multiplier, store
from ..pooling import NHWC, per_window, pooling_problem, starts_of, windows_of
from ..program import INT8_MAX, INT8_MIN, Instruction, Operand, Tensor, Windows
from ..table import Link, VpuOp, register
from ..units import Unit

if TYPE_CHECKING:
    from ..builder import ProgramBuilder

aten = torch.ops.aten

MAX_CELLS = INT32_MAX // 255  # of so many centered values the sum fits int32


@dataclass
class AvgPool2d(Instruction):
    """store((sum (x - zp)) / (row_divisor[i] * column_divisor[j]) * multiplier), x [N, H, W, C]."""

    rows: Windows
    columns: Windows
    row_divisor: tuple[int, ...]
    column_divisor: tuple[int, ...]
    multiplier: float
    out_min: int = INT8_MIN
    out_max: int = INT8_MAX

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        total = per_window(inputs[0].centered, self.rows, self.columns, "sum")
        divisor = np.outer(self.row_divisor, self.column_divisor)[:, :, np.newaxis]
        f = total.astype(np.float32) / divisor.astype(np.float32) * np.float32(self.multiplier)
        return store(f, output.zero_point, self.out_min, self.out_max)


@register
class AvgPool2dOp(VpuOp):
    name = "avg_pool2d"
    targets = (aten.avg_pool2d.default, aten.adaptive_avg_pool2d.default)
    links = (Link.ACTIVATION,)

    def check(self, node: Node) -> str | None:
        problem = pooling_problem(node)
        if problem is not None:
            return problem
        (rows, columns), (row_divisor, column_divisor) = _pool(node)
        cells = _longest(rows) * _longest(columns)
        if cells > MAX_CELLS:
            return f"its window has {cells} cells; the int32 sum is proven to hold {MAX_CELLS}"
        for divisor in (min(row_divisor), max(row_divisor) * max(column_divisor)):
            if not 1 <= divisor <= INT32_MAX:
                return f"its divisor is {divisor}; the limits are 1 and {INT32_MAX}"
        return None

    def lower(self, unit: Unit, builder: ProgramBuilder) -> None:
        windows, divisors = _pool(unit.root)
        factor = float(multiplier(unit.input_qparams(0).scale, unit.output_qparams.scale))
        pool = AvgPool2d(*windows, *divisors, factor, *unit.output_clamp)
        shape = physical(shape_of(unit.quantize), NHWC)
        inputs = [builder.input(unit.sources[0], NHWC)]
        builder.define(unit, builder.emit(pool, inputs, shape, unit.output_qparams), NHWC)


def _pool(node: Node) -> tuple[tuple[Windows, Windows], tuple[tuple[int, ...], tuple[int, ...]]]:
    """((rows, columns), (row_divisor, column_divisor)) of a call."""
    if aten_target(node) is aten.adaptive_avg_pool2d.default:
        source = arguments(node).input
        rows, columns = (_adaptive(size_of(source, axis), size_of(node, axis)) for axis in (2, 3))
        return (rows, columns), (_lengths(rows), _lengths(columns))
    call = arguments(node)
    rows, columns = windows_of(node)
    if call.divisor_override is not None:
        divisors = (call.divisor_override,) * len(rows), (1,) * len(columns)
    elif call.count_include_pad:
        divisors = _padded_lengths(node, 0), _padded_lengths(node, 1)
    else:
        divisors = _lengths(rows), _lengths(columns)
    return (rows, columns), divisors


def _adaptive(size: int, outputs: int) -> Windows:
    """`outputs` windows that cover [0, size) evenly; they overlap where the sizes do not divide."""
    begin = [i * size // outputs for i in range(outputs)]
    end = [-(-(i + 1) * size // outputs) for i in range(outputs)]
    return Windows(begin, end)


def _lengths(windows: Windows) -> tuple[int, ...]:
    return tuple(len(windows.cells(i)) for i in range(len(windows)))


def _longest(windows: Windows) -> int:
    return max(_lengths(windows))


def _padded_lengths(node: Node, axis: int) -> tuple[int, ...]:
    """Cells per window, padding included; what ceil_mode adds behind the padding does not count."""
    starts, kernel = starts_of(node, axis)
    size = size_of(arguments(node).input, 2 + axis)
    behind = size - starts[0]  # starts[0] is minus the padding, which is the same on both sides
    return tuple(min(start + kernel, behind) - start for start in starts)
