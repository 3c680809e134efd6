"""The demo's data and network: scikit-learn's handwritten digits, and a residual network."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional


class Split(NamedTuple):
    """Images, float32 [n, 1, 8, 8] in [0, 1], and their digits, int64 [n]."""

    images: Tensor
    labels: Tensor


def digits(seed: int) -> tuple[Split, Split]:
    """The 1,797 images as (training, held-out) splits of 1,257 and 540."""
    data = load_digits()
    images = torch.from_numpy(data.images).float().unsqueeze(1) / 16
    labels = torch.from_numpy(data.target).long()
    train, held_out = train_test_split(
        range(len(labels)), test_size=0.3, stratify=data.target, random_state=seed
    )
    return Split(images[train], labels[train]), Split(images[held_out], labels[held_out])


class Block(nn.Module):
    """relu(bn(conv(relu(bn(conv(x))))) + x)"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _conv_bn(channels, channels)
        self.second = _conv_bn(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.second(functional.relu(self.first(x))) + x)


class DigitNet(nn.Module):
    """A residual network: float32 [n, 1, 8, 8] -> logits [n, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            _conv_bn(1, 32), nn.ReLU(), Block(32), _conv_bn(32, 64, stride=2), nn.ReLU(), Block(64)
        )
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits


def _conv_bn(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs)
    )


def train(
    model: nn.Module, data: Split, epochs: int, on_epoch: Callable[[int, float], None]
) -> nn.Module:
    """Trains in place and returns the model in eval mode; calls on_epoch(epoch, mean loss)."""
    batch = 64
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    steps = epochs * -(-len(data.labels) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=steps)
    model.train()
    for epoch in range(1, epochs + 1):
        losses = []
        for index in torch.randperm(len(data.labels)).split(batch):
            loss = functional.cross_entropy(model(_shifted(data.images[index])), data.labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        on_epoch(epoch, sum(losses) / len(losses))
    return model.eval()


def _shifted(images: Tensor) -> Tensor:
    """The images moved by up to one pixel either way, filled with background."""
    down, right = torch.randint(0, 3, (2,)).tolist()
    return functional.pad(images, (1, 1, 1, 1))[:, :, down : down + 8, right : right + 8]
