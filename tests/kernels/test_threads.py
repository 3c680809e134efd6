"""Several threads, over and over: what tests of single instructions give little occasion to."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from executorch_vpu.backend.interpreter import VpuInterpreter
from executorch_vpu.backend.reference import Reference
from executorch_vpu.backend.serialize import serialize
from tests.support.bits import ISAS
from tests.support.builds import ROOT, build, needs_tools
from tests.support.pipeline import lower_whole, quantize

SHAPE = (1, 3, 12, 12)
EXECUTIONS = 8


class Block(nn.Module):
    """Layers that are large enough to be split, and layers that are not."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 4 * channels, 1),
            nn.ReLU6(),
            nn.Conv2d(4 * channels, 4 * channels, 3, padding=1, groups=4 * channels),
            nn.Sigmoid(),
            nn.Conv2d(4 * channels, channels, 3, padding=1),
        )
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels, 1), nn.Sigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return torch.relu(y * self.gate(y) + x)


@dataclass(frozen=True)
class Runs:
    """A program, and what it gives for some inputs."""

    blob: bytes
    inputs: list[NDArray]
    outputs: list[NDArray]


@pytest.fixture(scope="module")
def runs() -> Runs:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), Block(32), Block(32), nn.AvgPool2d(2))
    images = [(torch.randn(SHAPE),) for _ in range(2)]
    quantized = quantize(net, images[0], images)
    program, _ = lower_whole(torch.export.export(quantized, images[0]))
    inputs = [x.numpy() for (x,) in images]
    outputs = [Reference(program).run([x])[0] for x in inputs]
    return Runs(serialize(program), inputs, outputs)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("isa", ISAS)
def test_every_execution_gives_the_references_bits(runs: Runs, isa: str, threads: int) -> None:
    interpreter = VpuInterpreter(runs.blob, isa, threads)
    for i in range(EXECUTIONS):
        turn = i % len(runs.inputs)
        (found,) = interpreter.run(runs.inputs[turn])
        np.testing.assert_array_equal(found, runs.outputs[turn], f"execution {i}")


@needs_tools("c++")
def test_after_an_exception_a_program_runs_as_before(runs: Runs, tmp_path: Path) -> None:
    """exceptions.cpp: observers and workers that throw, on one thread and on several."""
    case = tmp_path / "case"
    case.with_suffix(".blob").write_bytes(runs.blob)
    case.with_suffix(".inputs").write_bytes(runs.inputs[0].tobytes())
    case.with_suffix(".outputs").write_bytes(runs.outputs[0].tobytes())
    library = os.environ.get("VPU_LIBRARY")  # of a build with sanitizers
    options = ("-DVPU_EMULATE=ON", "-DVPU_BUILD_TESTS=ON")
    directory = Path(library).parent if library else build(ROOT / "build" / "emulated", *options)
    done = subprocess.run(
        [directory / "tests" / "kernels" / "exceptions", case],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
