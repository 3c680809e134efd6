"""Buffers the model writes to stay what they are: torchao would freeze them."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from executorch_vpu import VpuQuantizer


class Counting(nn.Module):
    def __init__(self, write: Callable[[Tensor], object], read: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.write, self.read = nn.Conv2d(3, 4, 1), write, read
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(1, 4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        self.write(self.calls)
        return y + self.read(self.calls)


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (lambda n: n.add_(1), lambda n: n),
        (lambda n: n.copy_(n + 1), lambda n: n),
        (lambda n: n[:, :2].add_(1), lambda n: n),  # through a view
        (lambda n: n.add_(1), lambda n: torch.relu(n) * 2),  # at one remove
    ],
)
def test_a_buffer_that_changes_is_not_quantized(
    write: Callable[[Tensor], object], read: Callable[[Tensor], Tensor]
) -> None:
    model, image = Counting(write, read).eval(), torch.randn(2, 3, 5, 4)
    untouched = copy.deepcopy(model)  # the exported module shares the buffer
    quantizer = VpuQuantizer()
    with torch.no_grad():
        exported = torch.export.export(model, (image,)).module()
        [output] = exported.graph.output_node().all_input_nodes
        prepared = prepare_pt2e(exported, quantizer)
        prepared(image)
        quantized = convert_pt2e(prepared)
        quantized.calls.zero_()  # calibration has counted
        outputs = [quantized(image) for _ in range(3)]
        expected = [untouched(image) for _ in range(3)]
    [reason] = [s.reason for s in quantizer.skipped if s.node == output.name]
    assert "calls" in reason
    for actual, wanted in zip(outputs, expected, strict=True):
        assert (actual - wanted).abs().max() < 0.1
