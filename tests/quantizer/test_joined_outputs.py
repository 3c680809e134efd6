"""Parts of the model's output keep a scale each; within a model they are brought to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executorch_vpu import VpuQuantizer

from ..support.pipeline import sqnr_db
from .graphs import cpu_reasons, quantize, unit_names
from .nets import Applied, conv

JOINS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "cat": lambda boxes, scores: torch.cat([boxes, scores], 1),
    "stack": lambda boxes, scores: torch.stack([boxes, scores], 1),
    "cat, then moved": lambda b, s: torch.cat([b.flatten(2), s.flatten(2)], 1).transpose(1, 2),
    "cat of cats": lambda b, s: torch.cat([torch.cat([b[:, :2], b[:, 2:]], 1), s], 1),
    "cut apart again": lambda b, s: torch.cat([b, s], 1).chunk(2, 1),
    "padded": lambda b, s: nn.functional.pad(torch.cat([b, s], 1), (1, 1)),
}


def detector(join: Callable[[Tensor, Tensor], Tensor]) -> nn.Module:
    def forward(trunk: nn.Module, boxes: nn.Module, scores: nn.Module, x: Tensor) -> Tensor:
        features = torch.relu(trunk(x))
        return join(boxes(features).sigmoid() * 640, scores(features).sigmoid())

    return Applied(forward, conv(3), conv(), conv())


def parts(outputs: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else outputs


@pytest.mark.parametrize("join", JOINS)
def test_scores_beside_boxes_keep_their_levels(join: str) -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(2, 3, 8, 8),)
    both = detector(lambda boxes, scores: (boxes, scores))  # type: ignore[arg-type,return-value]
    joined = Applied(lambda net, x: JOINS[join](*net(x)), both)
    quantizer = VpuQuantizer()
    quantized = quantize(joined, inputs, quantizer)
    apart = JOINS[join](*quantize(both, inputs)(*inputs))
    for wanted, actual in zip(parts(apart), parts(quantized(*inputs)), strict=True):
        assert sqnr_db(wanted, actual) > 40
    assert any("keep a scale each" in skipped.reason for skipped in quantizer.skipped)
    assert any("keep a scale each" in reason for reason in cpu_reasons(quantized).values())
    assert [name for name in unit_names(quantized) if "cat" in name or "stack" in name] == []


def test_parts_that_something_computes_on_are_joined_in_int8() -> None:
    inputs = (torch.randn(2, 3, 8, 8),)
    model = detector(lambda boxes, scores: torch.cat([boxes, scores], 1) * 2)
    assert "cat" in unit_names(quantize(model, inputs))
