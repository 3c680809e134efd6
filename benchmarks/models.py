"""torchvision's models, and a tiny one, for tests and benchmarks, without downloads.

Their weights are random. In such a network, batch norms that were never trained let activations
grow or vanish with depth; a few batches in training mode give each the statistics of its input.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

MODELS = ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "tiny")
IMAGE = (3, 224, 224)
_SEED = 20261129


def load_model(name: str) -> nn.Module:
    """A model in eval mode; the same weights on every call. All but "tiny" are torchvision's.

    Args:
        name: one of MODELS.
    Raises:
        ImportError: torchvision is not installed.
        ValueError: another name.
    """
    if name not in MODELS:
        raise ValueError(f"model {name!r} is none of {', '.join(MODELS)}")
    with torch.random.fork_rng():
        torch.manual_seed(_SEED)
        model = _tiny() if name == "tiny" else _of_torchvision(name)
        _warm_up(model)
    return model.eval()


def random_images(count: int, seed: int = 0) -> torch.Tensor:
    """Normal noise where a data set would be: float32 [count, 3, 224, 224]."""
    return torch.randn(count, *IMAGE, generator=torch.Generator().manual_seed(seed))


def _tiny() -> nn.Module:
    """Compiled in no time: to try out what is there for the others."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=8, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def _of_torchvision(name: str) -> nn.Module:
    _import_torchvision()
    from torchvision import models

    model: nn.Module = getattr(models, name)(weights=None)
    return model


def _warm_up(model: nn.Module) -> None:
    """A few training steps' worth of running statistics, with torchvision's own momentum."""
    model.train()
    with torch.no_grad():
        for seed in range(5):
            # Half the size of the real images: enough pixels per channel even at the last layers.
            model(torch.randn(4, 3, 112, 112, generator=torch.Generator().manual_seed(seed)))


def _import_torchvision() -> None:
    """Imports torchvision, also where its C++ operators do not load.

    They are linked against one build of torch; beside another (the CPU torch beside the CUDA
    torchvision) the import stops at the first operator it describes. The models used here call
    none of them, so that bare signatures do.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for module in [m for m in sys.modules if m.partition(".")[0] == "torchvision"]:
            del sys.modules[module]
        _signatures.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _signatures.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision  # noqa: F401


_signatures = torch.library.Library("torchvision", "FRAGMENT")
