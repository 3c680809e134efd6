"""Small networks for the quantizer's tests."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Applied(nn.Module):
    """A function of the inputs and of layers, which are called by position."""

    def __init__(self, function: Callable[..., object], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *inputs: Tensor) -> object:
        return self.function(*self.layers, *inputs)


def conv(channels_in: int = 4, channels_out: int = 4, bias: bool = True) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=bias)


def warmed_up(model: nn.Module) -> nn.Module:
    """Gives every batch norm statistics and parameters that are far from doing nothing."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.running_mean is not None and module.running_var is not None:
                module.running_mean.normal_(0, 0.5)
                module.running_var.uniform_(0.3, 3)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.normal_(module.bias)
    return model.eval()


class ConvBnReLU(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, bias: bool = False) -> None:
        super().__init__()
        self.conv = conv(channels_in, channels_out, bias)
        self.bn = nn.BatchNorm2d(channels_out)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.bn(self.conv(x)))


class ConvReLU(nn.Module):
    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = conv(channels_in, channels_out)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(x))
