"""A .pte around a VPU program written by hand."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import to_edge
from executorch.exir.backend.backend_api import to_backend
from executorch.exir.backend.backend_details import PreprocessResult

from executorch_vpu.backend.vpu_backend import VpuBackend

from .blobs import HAND_MADE_SHAPE, hand_made


class Model(torch.nn.Module):
    """Has the inputs and outputs of `lookup_program`; what it computes is of no matter."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes = (x * 2).to(torch.int8)
        return x * 2.0, codes.contiguous(memory_format=torch.channels_last)


class Wrapper(torch.nn.Module):
    def __init__(self, lowered: torch.nn.Module) -> None:
        super().__init__()
        self.lowered = lowered

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result: tuple[torch.Tensor, torch.Tensor] = self.lowered(x)
        return result


@pytest.fixture(scope="session")
def pte() -> bytes:
    """A program that is one delegate call, with the hand-made blob."""
    example = (torch.zeros(HAND_MADE_SHAPE),)
    with pytest.MonkeyPatch.context() as patch:
        result = PreprocessResult(hand_made())
        patch.setattr(VpuBackend, "preprocess", staticmethod(lambda *_: result))
        edge = to_edge(torch.export.export(Model(), example)).exported_program()
        lowered = to_backend("VpuBackend", edge, [])
        whole = to_edge(torch.export.export(Wrapper(lowered), example))
        return bytes(whole.to_executorch().buffer)
