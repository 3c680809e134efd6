"""Blocks of transformers and modern convolutional networks, whose norms run on the CPU between the
VPU's subgraphs: end to end in the stock runtime, against the float model."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn

from executorch_vpu import VpuPartitioner, quantize

from ..support.pipeline import run_pte, sqnr_db, worst_error_by_unit

WIDTH, HEADS, TOKENS = 48, 4, 50


class Attention(nn.Module):
    """Self-attention written out, with an additive mask or none."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.masked = masked

    def forward(self, x: Tensor) -> Tensor:
        split = self.project(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = split[0], split[1], split[2]
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH / HEADS)
        if self.masked:
            scores = scores + torch.full((TOKENS, TOKENS), -math.inf).triu(1)
        mixed = torch.softmax(scores, -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class TransformerBlock(nn.Module):
    def __init__(self, masked: bool = False) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(masked)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViTBlock(nn.Module):
    """Patches embedded by a convolution, and a block: the norm reads a permuted tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.block = nn.Conv2d(3, WIDTH, 4, 4), TransformerBlock()

    def forward(self, image: Tensor) -> Tensor:
        return self.block(self.patches(image).flatten(2).transpose(1, 2))


class ConvNeXtBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 4, 4)
        self.depthwise = nn.Conv2d(WIDTH, WIDTH, 7, padding=3, groups=WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(nn.functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


IMAGE, SEQUENCE = (2, 3, 28, 28), (2, TOKENS, WIDTH)
BLOCKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "ViT": (ViTBlock, IMAGE),
    "ConvNeXt": (ConvNeXtBlock, IMAGE),
    "masked attention": (lambda: TransformerBlock(masked=True), SEQUENCE),
}


@pytest.mark.parametrize("channels_last", [False, True], ids=["", "channels last"])
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_close_to_float_in_the_runtime(name: str, channels_last: bool) -> None:
    make, shape = BLOCKS[name]
    if channels_last and len(shape) != 4:
        pytest.skip("only images have channels to be last")
    torch.manual_seed(0)
    model = make().eval()
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    data = [torch.randn(shape).contiguous(memory_format=memory_format) for _ in range(9)]
    quantized = quantize(model, (data[0],), data[:8], progress=False)
    program = torch.export.export(quantized, (data[0],))
    assert worst_error_by_unit(program, (data[8],))[0] <= 1
    edge = to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])
    [output] = run_pte(edge.to_executorch().buffer, (data[8],))
    with torch.no_grad():
        assert sqnr_db(model(data[8]), output) >= 30
        # A step here and there apart, the same as the Q/DQ graph computes.
        assert sqnr_db(quantized(data[8]), output) >= 40
