"""Boundary conversion: int8 -> float32. It belongs to no op family; the builder emits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..program import Instruction, Operand, Tensor


@dataclass
class Dequantize(Instruction):
    """int8 -> float32, with a change of layout: (x - zero_point) * scale."""

    perm: tuple[int, ...]
    scale: float

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        centered = inputs[0].centered.astype(np.float32) * np.float32(self.scale)
        return centered.transpose(self.perm).reshape(output.shape)
