"""A .pte around a VPU program written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.backend.backend_api import to_backend
from executorch.exir.backend.backend_details import PreprocessResult

from executorch_vpu.backend.vpu_backend import VpuBackend

from .blobs import HAND_MADE_SHAPE, hand_made


class Model(torch.nn.Module):
    """Has the inputs and outputs of `lookup_program`."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes = (x * 2).to(torch.int8)
        return x * 2.0, codes.contiguous(memory_format=torch.channels_last)


class Wrapper(torch.nn.Module):
    def __init__(self, lowered: torch.nn.Module) -> None:
        super().__init__()
        self.lowered = lowered

    def forward(self, x: torch.Tensor) -> Any:
        return self.lowered(x)


MakePte = Callable[..., bytes]


@pytest.fixture(scope="session")
def make_pte() -> MakePte:
    """A program whose every method is one delegate call, with the blob. `model` takes and gives
    what the blob does; what it computes is of no matter. `others` are methods of other blobs."""

    def make(
        blob: bytes,
        model: torch.nn.Module,
        x: torch.Tensor,
        methods: Sequence[str] = ("forward",),
        others: Mapping[str, bytes] | None = None,
        config: ExecutorchBackendConfig | None = None,
    ) -> bytes:
        whole = {}
        for method, data in {**dict.fromkeys(methods, blob), **(others or {})}.items():
            with pytest.MonkeyPatch.context() as patch:
                result = PreprocessResult(data)
                patch.setattr(VpuBackend, "preprocess", staticmethod(lambda *_, r=result: r))
                edge = to_edge(torch.export.export(model, (x,))).exported_program()
                lowered = to_backend("VpuBackend", edge, [])
            whole[method] = torch.export.export(Wrapper(lowered), (x,))
        return bytes(to_edge(whole).to_executorch(config).buffer)

    return make


@pytest.fixture(scope="session")
def pte(make_pte: MakePte) -> bytes:
    """A program that is one delegate call, with the hand-made blob."""
    return make_pte(hand_made(), Model(), torch.zeros(HAND_MADE_SHAPE))
