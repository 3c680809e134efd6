"""Programs to report on."""

import torch
from torch import nn
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.nn import functional as F

from ..support.pipeline import Inputs, quantize


class Fork(nn.Module):
    """Not convex when sigmoid and tanh are on the CPU: their way around keeps relu and add apart.

    Sizes: input 32 elements, everything else 48.
    """

    inputs = (torch.randn(1, 2, 4, 4),)

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.conv(x))
        return y + torch.sigmoid(y), torch.tanh(y)


class RandomNet(nn.Module):
    """Some ops of SEED_OPS and some of others, wired at random."""

    inputs = (torch.randn(1, 4, 6, 6), torch.randn(1, 4, 6, 6))

    def __init__(self, seed: int, size: int = 14) -> None:
        super().__init__()
        pick = torch.Generator().manual_seed(seed)

        def below(n: int) -> int:
            return int(torch.randint(n, (1,), generator=pick))

        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))
        self.plan = [
            (below(7), below(2 + i), below(2 + i), below(len(self.convs))) for i in range(size)
        ]

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        values = [a, b]
        for kind, i, j, conv in self.plan:
            x, y = values[i], values[j]
            match kind:
                case 0 | 1:
                    x = self.convs[conv](x)
                case 2:
                    x = torch.relu(x)
                case 3:
                    x = F.max_pool2d(x, 3, 1, 1)
                case 4:
                    x = x + y
                case 5:
                    x = torch.sigmoid(x)
                case 6:
                    x = x * y
            values.append(x)
        return values[-3:]


def export_quantized(
    model: nn.Module, inputs: Inputs, ops: tuple[OpOverload, ...] | None = None
) -> ExportedProgram:
    return torch.export.export(quantize(model, inputs, ops=ops), inputs)
