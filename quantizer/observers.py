"""Torchao's observers, for tensors that are zero in all the calibration data.

Such are common: a ReLU behind a few channels may never let anything pass. Torchao gives them the
smallest scale there is, about 1e-7, at which the biases around them do not fit 32-bit integers.
Zeros may have any scale, so they get one that is usual for activations.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchao.quantization.pt2e import HistogramObserver, MovingAverageMinMaxObserver

SCALE_OF_ZEROS = 2.0**-10


class _ScaleOfZeros:
    """Mixed into an observer class."""

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        scale, zero_point = super()._calculate_qparams(min_val, max_val)  # type: ignore[misc]
        only_zeros = (min_val == 0) & (max_val == 0)
        return torch.where(only_zeros, SCALE_OF_ZEROS, scale), zero_point


class LeastErrorObserver(_ScaleOfZeros, HistogramObserver):
    """The range with the least squared error over all it has seen."""


class MovingAverageObserver(_ScaleOfZeros, MovingAverageMinMaxObserver):
    """The range of what it sees, averaged over time."""
