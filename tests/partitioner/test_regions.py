"""Parts of forward that torch.export keeps whole, and programs that were decomposed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from executorch_vpu import partition_report
from executorch_vpu.backend.regions import dissolve_regions, is_region
from tests.support.pipeline import quantize, sqnr_db

IMAGE = (torch.randn(2, 3, 6, 7),)
Context = Callable[[], AbstractContextManager[object]]


class Under(nn.Module):
    """Ops under a context manager, between others; two of their values are read outside."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.inside, self.outside = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1)
        self.context = context

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.sigmoid(x)
        with self.context():
            y = torch.relu(self.inside(x))
            with torch.enable_grad():
                y = y + y.mean((2, 3), keepdim=True)
            z = torch.sigmoid(y)
        return self.outside(y) + z, y


CHANGES_NOTHING: dict[str, Context] = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "autocast disabled": lambda: torch.autocast("cpu", enabled=False),
}


@pytest.mark.parametrize("context", CHANGES_NOTHING)
def test_a_region_that_changes_nothing_is_dissolved(context: str) -> None:
    torch.manual_seed(0)
    model = Under(CHANGES_NOTHING[context]).eval()
    exported = torch.export.export(model, IMAGE).module()
    dissolve_regions(exported)
    assert not any(is_region(node) for node in exported.graph.nodes)
    for actual, expected in zip(exported(*IMAGE), model(*IMAGE), strict=True):
        torch.testing.assert_close(actual, expected)
    quantized = quantize(model, IMAGE, exported=exported)
    report = partition_report(quantized, IMAGE)
    assert report.summary.cpu_ops == 0 and len(report.subgraphs) == 1
    for actual, expected in zip(quantized(*IMAGE), model(*IMAGE), strict=True):
        assert sqnr_db(expected.detach(), actual.detach()) > 30


class Cast(nn.Module):
    """A convolution in bfloat16; what reads its result is float32 again."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.conv(x)
        return self.head(y.float())


def test_an_autocast_region_is_kept_and_the_report_says_what_it_is() -> None:
    exported = torch.export.export(Cast().eval(), IMAGE).module()
    before = str(exported.graph)
    dissolve_regions(exported)
    assert str(exported.graph) == before
    report = partition_report(torch.export.export(exported, IMAGE))
    [reason] = [op.reason for op in report.ops if op.op.startswith("wrap_with")]
    assert reason is not None and "torch.autocast" in reason and "bfloat16" in reason
    [hint] = report.hints
    assert "region" in hint and "prepare_pt2e" not in hint


def test_the_report_says_what_helps_a_region_under_no_grad() -> None:
    report = partition_report(torch.export.export(Under(torch.no_grad).eval(), IMAGE))
    assert any("export the model under torch.no_grad()" in reason for reason in report.reasons)


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = F.adaptive_avg_pool2d(self.norm(torch.relu(self.conv(x))), (2, 3))
        return F.layer_norm(self.head(y.permute(0, 2, 3, 1)), (5,)).softmax(-1)


@pytest.mark.parametrize("quantized", [False, True])
def test_the_report_recognises_a_decomposed_program(quantized: bool) -> None:
    model = quantize(Norms(), IMAGE) if quantized else Norms().eval()
    program = torch.export.export(model, IMAGE)
    assert not any("decompos" in text for text in (*program_words(program),))
    words = program_words(program.run_decompositions())
    assert any("looks decomposed" in word and "as torch.export gives it" in word for word in words)
    for op in ("a convolution", "batch_norm", "layer_norm", "adaptive_avg_pool2d"):
        assert any(f"run_decompositions() makes of {op}." in word for word in words)


def program_words(program: torch.export.ExportedProgram) -> list[str]:
    report = partition_report(program)
    return [*report.hints, *report.reasons]
