"""Ranges of little use to int8 are said in the report and when lowering."""

from __future__ import annotations

import logging
import warnings

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from executorch_vpu import VpuPartitioner, VpuQuantizer, partition_report

from ..quantizer.nets import Applied, conv

IMAGE = (torch.randn(1, 3, 8, 8),)


def quantized(model: nn.Module, *calibration: torch.Tensor) -> ExportedProgram:
    prepared = prepare_pt2e(torch.export.export(model.eval(), IMAGE).module(), VpuQuantizer())
    for image in calibration:
        prepared(image)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(convert_pt2e(prepared), IMAGE)


def test_a_program_that_was_not_calibrated_is_told(caplog: pytest.LogCaptureFixture) -> None:
    program = quantized(nn.Sequential(conv(3), nn.ReLU(), nn.MaxPool2d(2), conv()))
    [warning] = partition_report(program).warnings
    assert warning.startswith("the input input, relu (in module 1), ")
    assert "conv2d_1 (in module 3): never observed in calibration" in warning
    with caplog.at_level(logging.WARNING):
        to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])
    assert warning in caplog.messages


@pytest.mark.parametrize(("factor", "words"), [(1e-30, "smallest scale"), (1e30, "a scale above")])
def test_extreme_ranges_are_told(factor: float, words: str) -> None:
    report = partition_report(quantized(nn.Sequential(conv(3)), IMAGE[0] * factor))
    assert any(words in warning and "the input input" in warning for warning in report.warnings)


def test_a_good_calibration_has_no_warning() -> None:
    assert partition_report(quantized(nn.Sequential(conv(3), nn.ReLU()), *IMAGE)).warnings == ()


def test_the_part_of_a_join_that_keeps_few_levels_is_named() -> None:
    def forward(boxes: nn.Module, scores: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cat([boxes(x) * 640, torch.sigmoid(scores(x))], 1) - 0.5)

    report = partition_report(quantized(Applied(forward, conv(3), conv(3)), *IMAGE))
    [warning] = report.warnings
    assert warning.startswith("sigmoid keeps ") and " of its 256 levels in cat" in warning
    alike = Applied(lambda a, b, x: torch.relu(torch.cat([a(x), b(x)], 1)), conv(3), conv(3))
    assert partition_report(quantized(alike, *IMAGE)).warnings == ()
