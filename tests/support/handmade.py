"""Q/DQ graphs written out by hand: any parameters, no calibration, exported once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from executorch_vpu.backend.numerics import QParams
from executorch_vpu.backend.units import DEQUANTIZE, DEQUANTIZE_PER_CHANNEL, QUANTIZE

Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Stage:
    """One quantized op: the first takes the model's inputs, every other the result before it."""

    function: Function
    output: QParams


class Quantized(nn.Module):
    """dequantize(quantize(·)) of every input, and behind every stage."""

    def __init__(self, inputs: Sequence[QParams], stages: Sequence[Stage]) -> None:
        super().__init__()
        self.inputs, self.stages = inputs, stages
        # Functions that are modules (weights) are found by export.
        self.parts = nn.ModuleList(s.function for s in stages if isinstance(s.function, nn.Module))

    def forward(self, *xs: Tensor) -> Tensor:
        values = [rounded(x, q) for x, q in zip(xs, self.inputs, strict=True)]
        for stage in self.stages:
            values = [rounded(stage.function(*values), stage.output)]
        return values[0]


class Weighted(nn.Module):
    """A convolution or linear layer with int8 weights and a float bias."""

    def __init__(
        self, function: Function, weight: Tensor, scales: Tensor, bias: Tensor | None
    ) -> None:
        super().__init__()
        self.function = function
        self.weight: Tensor
        self.scales: Tensor
        self.zero_points: Tensor
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales)
        self.register_buffer("zero_points", torch.zeros(len(scales), dtype=torch.int64))
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        weight = DEQUANTIZE_PER_CHANNEL(
            self.weight, self.scales, self.zero_points, 0, -127, 127, torch.int8
        )
        return self.function(x, weight, self.bias)


def rounded(x: Tensor, q: QParams) -> Tensor:
    """dequantize(quantize(x))"""
    limits = (-128, 127, torch.int8)
    result: Tensor = DEQUANTIZE(QUANTIZE(x, *q, *limits), *q, *limits)
    return result


def covering(values: Tensor, zoom: float = 1.0) -> QParams:
    """Parameters whose range is that of `values`, 0 included, divided by `zoom`."""
    values = values.nan_to_num(0.0, 0.0, 0.0)
    low, high = min(float(values.min()), 0.0) / zoom, max(float(values.max()), 0.0) / zoom
    scale = max((high - low) / 255.0, 1e-6)
    return QParams(scale, int(min(max(round(-128 - low / scale), -128), 127)))


def exported(
    functions: Sequence[Function], inputs: tuple[Tensor, ...], zoom: float = 1.0
) -> ExportedProgram:
    """The Q/DQ program of a chain of stages; every range covers what these inputs give."""
    qparams = [covering(x, zoom) for x in inputs]
    values = [rounded(x, q) for x, q in zip(inputs, qparams, strict=True)]
    stages = []
    with torch.no_grad():
        for function in functions:
            result = function(*values)
            stages.append(Stage(function, covering(result, zoom)))
            values = [rounded(result, stages[-1].output)]
    return torch.export.export(Quantized(qparams, stages), inputs)
