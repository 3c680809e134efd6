"""The two nets of the fallback report's seed, input 1x3x16x16, and the op table of its VPU."""

import torch
from torch import nn
from torch.nn import functional as F

aten = torch.ops.aten

SEED_OPS = (
    aten.conv2d.default,
    aten.relu.default,
    aten.hardtanh.default,
    aten.max_pool2d.default,
    aten.flatten.using_ints,
    aten.linear.default,
    aten.add.Tensor,
    aten.cat.default,
)


class ConvBn(nn.Sequential):
    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__(
            nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
        )


class TinyConvNet(nn.Module):
    """A small residual network."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = ConvBn(3, 16), ConvBn(16, 32)
        self.third, self.fourth = ConvBn(32, 32), ConvBn(32, 32)
        self.classifier = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        y = F.relu(self.third(x))
        x = F.relu(self.fourth(y) + x)
        x = F.adaptive_avg_pool2d(x, 1)
        logits: torch.Tensor = self.classifier(torch.flatten(x, 1))
        return logits


class OpZooNet(nn.Module):
    """Many kinds of ops, one of each."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 3, padding=1)
        self.scale = nn.Parameter(torch.rand(1, 16, 1, 1) + 0.5)
        self.linear = nn.Linear(16, 10)
        self.mix = nn.Parameter(torch.randn(10, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = torch.sigmoid(self.left(x)), F.leaky_relu(self.right(x))
        x = torch.cat([left, right], 1) * self.scale
        x = F.avg_pool2d(F.max_pool2d(x, 2), 2).mean((2, 3))
        return torch.softmax(torch.matmul(self.linear(x), self.mix), -1)
