"""What the quantizer annotates is what the partitioner will find: every annotated chain of ops is
one unit of the converted graph, and there are no other units."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.nn import functional as F
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from executorch_vpu import VPU_OPS, VpuQuantizer
from executorch_vpu.backend.chains import find_chains
from executorch_vpu.backend.units import Unit

from ..models import OpZooNet, TinyConvNet
from .graphs import Inputs, cpu_reasons, quantize, unit_names
from .nets import Applied, ConvBnReLU, conv, warmed_up


class Recorder(VpuQuantizer):
    """Keeps the names its annotated chains will have as units."""

    def annotate(self, model: GraphModule) -> GraphModule:
        model = super().annotate(model)
        self.names = [
            Unit(chain, (), chain.last).name
            for chain in find_chains(model.graph, VPU_OPS)[0].values()
            if Q_ANNOTATION_KEY in chain.root.meta
        ]
        return model


class Bottleneck(nn.Module):
    """A residual block with a convolution on its shortcut, in place wherever it can be."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(ConvBnReLU(4, 6), ConvBnReLU(6, 6))
        self.expand, self.expand_norm = nn.Conv2d(6, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.shortcut, self.shortcut_norm = nn.Conv2d(4, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.expand_norm(self.expand(self.blocks(x)))
        y += self.shortcut_norm(self.shortcut(x))
        return self.relu(y)


class SqueezeExcite(nn.Module):
    """A depthwise convolution, gated by its own means."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(4, 4, 3, groups=4, padding=1)
        self.down, self.up = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.hardswish(self.depthwise(x))
        gate = self.up(F.relu(self.down(F.adaptive_avg_pool2d(y, 1))))
        return x + y * F.hardsigmoid(gate)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(6, 18), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.project(x)[..., i : i + 6] for i in (0, 6, 12))
        weights = torch.softmax(q @ k.transpose(-2, -1) * 0.4, -1)
        return x + self.out(weights @ v)


IMAGE, PHOTO = (torch.randn(2, 4, 7, 6),), (torch.randn(1, 3, 16, 16),)
NETS: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "tiny": (TinyConvNet, PHOTO),
    "zoo": (OpZooNet, PHOTO),
    "bottleneck": (Bottleneck, IMAGE),
    "squeeze and excite": (SqueezeExcite, IMAGE),
    "attention": (Attention, (torch.randn(2, 5, 6),)),
    "an unknown op within": (
        lambda: Applied(lambda a, b, x: b(torch.erfinv(torch.sigmoid(a(x)))) + x, conv(), conv()),
        IMAGE,
    ),
    "an unsupported call within": (
        lambda: Applied(lambda a, b, x: torch.add(a(x), torch.relu(b(x)), alpha=3), conv(), conv()),
        IMAGE,
    ),
}


def check(model: nn.Module, inputs: Inputs) -> GraphModule:
    quantizer = Recorder()
    quantized = quantize(model, inputs, quantizer)
    assert sorted(unit_names(quantized)) == sorted(quantizer.names)
    assert len(cpu_reasons(quantized)) == len(quantizer.skipped)
    return quantized


@pytest.mark.parametrize("name", NETS)
def test_annotated_chains_are_the_units(name: str) -> None:
    make, inputs = NETS[name]
    model = warmed_up(make())
    quantized = check(model, inputs)
    with torch.no_grad():
        expected = model(*inputs)
        noise = (quantized(*inputs) - expected).square().mean()
    assert noise < 0.02 * expected.square().mean()  # it still computes the same


@pytest.mark.parametrize("seed", range(10))
def test_annotated_chains_of_random_networks_are_the_units(seed: int) -> None:
    choose = random.Random(seed)
    convs = [conv() for _ in range(4)]
    unary: list[Callable[[Tensor], Tensor]] = [
        torch.relu,
        F.relu6,
        torch.sigmoid,
        torch.erf,  # not in the table
        lambda x: x + 0.5,
        lambda x: F.max_pool2d(x, 3, 1, 1),
        lambda x: x.flatten(2).view_as(x),
        lambda x: x.transpose(2, 3).transpose(3, 2),
        lambda x: torch.cat([x[:, 2:], x[:, :2]], 1),
    ]
    binary: list[Callable[[Tensor, Tensor], Tensor]] = [torch.add, torch.add, torch.sub, torch.mul]
    steps: list[Callable[[list[Tensor]], Tensor]] = []
    unread = {0}
    for i in range(12):
        a = i if choose.random() < 0.6 else choose.randint(0, i)
        b, kind = choose.randint(0, i), choose.random()
        unread = (unread - {a} - ({b} if kind >= 0.7 else set())) | {i + 1}
        if kind < 0.35:
            layer = choose.choice(convs)
            steps.append(lambda values, a=a, layer=layer: layer(values[a]))
        elif kind < 0.7:
            one = choose.choice(unary)
            steps.append(lambda values, a=a, one=one: one(values[a]))
        else:
            two = choose.choice(binary)
            steps.append(lambda values, a=a, b=b, two=two: two(values[a], values[b]))

    def forward(*inputs: Tensor) -> list[Tensor]:
        values = [inputs[-1]]
        for step in steps:
            values.append(step(values))
        return [values[i] for i in sorted(unread)]

    check(Applied(forward, *convs), IMAGE)
