"""The numeric contract in NumPy: the few formulas every instruction is made of.

All arithmetic is float32, one IEEE-754 operation per step, rounding half to even, so that C++ on
any instruction set gives the same bits. `schema/vpu.fbs` states the formulas.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .program import INT8_MAX, INT8_MIN

INT32_MAX = 2**31 - 1


class QParams(NamedTuple):
    """Parameters of an int8 per-tensor tensor: real = scale * (q - zero_point)."""

    scale: float
    zero_point: int

    def quantize(self, x: ArrayLike) -> NDArray[np.int8]:
        """float -> int8 exactly as quantized_decomposed.quantize_per_tensor computes it."""
        f = np.asarray(x, np.float32) * np.float32(1.0 / self.scale)
        return store(f, self.zero_point)

    def dequantize(self, q: ArrayLike) -> NDArray[np.float32]:
        """int8 -> float32 exactly as quantized_decomposed.dequantize_per_tensor computes it."""
        centered = (np.asarray(q).astype(np.int32) - self.zero_point).astype(np.float32)
        return centered * np.float32(self.scale)


ALL_CODES = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.int8)
"""Every int8 value in order: the domain of a 256-entry table."""


def store(
    f: ArrayLike, zero_point: int, out_min: int = INT8_MIN, out_max: int = INT8_MAX
) -> NDArray[np.int8]:
    """clamp(rne(f) + zero_point, out_min, out_max); NaN becomes out_min.

    The clamp is applied before the rounding, which gives the same result and cannot overflow.
    """
    f = np.asarray(f, np.float32)
    lo, hi = np.float32(out_min - zero_point), np.float32(out_max - zero_point)
    f = np.where(f > lo, f, lo)
    f = np.where(f < hi, f, hi)
    return (np.rint(f).astype(np.int32) + zero_point).astype(np.int8)


def multiplier(numerator: ArrayLike, denominator: float) -> NDArray[np.float32]:
    """A requantization factor such as s_x * s_w / s_y: computed in float64, rounded once."""
    return (np.asarray(numerator, np.float64) / denominator).astype(np.float32)


def requantize_table(source: QParams, target: QParams) -> NDArray[np.int8]:
    """The 256-entry table that takes a value from one scale and zero point to another."""
    return target.quantize(source.dequantize(ALL_CODES))


def look_up(table: NDArray[np.int8], q: NDArray[np.int8]) -> NDArray[np.int8]:
    """table[q + 128], elementwise."""
    return table[q.astype(np.int16) + 128]
