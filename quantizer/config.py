"""How the ranges of tensors are measured."""

from __future__ import annotations

from dataclasses import dataclass

from torchao.quantization.pt2e import (
    FusedMovingAvgObsFakeQuantize,
    MovingAveragePerChannelMinMaxObserver,
    ObserverOrFakeQuantizeConstructor,
    PerChannelMinMaxObserver,
)

from .observers import LeastErrorObserver, MovingAverageObserver


@dataclass(frozen=True)
class QuantizationConfig:
    """The observers (or, for QAT, fake quantizers) that measure ranges.

    What they measure for is fixed by the VPU: activations int8 per tensor, weights int8 symmetric
    per output channel. Any constructor that `torchao.quantization.pt2e` accepts in a
    QuantizationSpec will do, e.g. `MinMaxObserver`, or `MinMaxObserver.with_args(eps=1e-6)`.

    Attributes:
        activation: per tensor, for everything the model computes and for its inputs.
        weight: per output channel, for the weights of convolutions and linear layers.
    """

    activation: ObserverOrFakeQuantizeConstructor
    weight: ObserverOrFakeQuantizeConstructor


PTQ = QuantizationConfig(activation=LeastErrorObserver, weight=PerChannelMinMaxObserver)
"""After training: each activation's range is the one with the least squared error over all the
calibration data, so that rare outliers are clipped."""

QAT = QuantizationConfig(
    activation=FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageObserver),
    weight=FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver),
)
"""During training: ranges follow the data and every tensor is rounded as the VPU will round it."""
