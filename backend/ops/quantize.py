"""Boundary conversion: float32 -> int8. It belongs to no op family; the builder emits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..numerics import store
from ..program import Instruction, Operand, Tensor


@dataclass
class Quantize(Instruction):
    """float32 -> int8, with a change of layout. `inv_scale` = float32(1 / scale)."""

    perm: tuple[int, ...]
    inv_scale: float

    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        x = inputs[0].data.transpose(self.perm)
        with np.errstate(over="ignore"):
            return store(x * np.float32(self.inv_scale), output.zero_point).reshape(output.shape)
