"""What the plan leaves on the CPU because it only moves data stays in float."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from executorch_vpu import VpuQuantizer

from .graphs import quantize, unit_names
from .nets import Applied, conv

MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "view": lambda x: x.reshape(x.shape[0], -1, 3),
    "permute": lambda x: x.permute(0, 2, 3, 1),
    "slice": lambda x: x[:, 1:, ::2],
    "select": lambda x: x[:, 1],
    "unsqueeze": lambda x: x.unsqueeze(1),
    "pad": lambda x: F.pad(x, (1, 0, 2, 1), value=4.0),
    "clone": lambda x: x.clone().permute(1, 0, 2, 3),
    "cat of one": lambda x: torch.cat([x], 1),
    "stack of one": lambda x: torch.stack([x]),
    "several": lambda x: F.pad(x.flatten(2).transpose(1, 2)[:, 1:].unsqueeze(1), (1, 1)),
}


@pytest.mark.parametrize("move", MOVES)
def test_data_that_is_only_moved_is_not_rounded(move: str) -> None:
    inputs = (torch.randn(2, 4, 6, 6), torch.randn(2, 4, 6, 6))

    def forward(c: torch.nn.Module, x: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        return torch.erf(MOVES[move](x)), torch.relu(c(image))

    model = Applied(forward, conv())
    quantizer = VpuQuantizer()
    quantized = quantize(model, inputs, quantizer)
    assert unit_names(quantized) == ["conv2d+relu"]
    assert torch.equal(quantized(*inputs)[0], torch.erf(MOVES[move](inputs[0])))
    moved = [s for s in quantizer.skipped if "only move data" in s.reason]
    assert moved and all("relu" not in s.node for s in moved)


@pytest.mark.parametrize("move", MOVES)
def test_beside_an_op_that_computes_it_moves_int8(move: str) -> None:
    inputs = (torch.randn(2, 4, 6, 6),)
    quantizer = VpuQuantizer()
    quantize(Applied(lambda c, x: MOVES[move](c(x)), conv()), inputs, quantizer)
    assert not quantizer.skipped
