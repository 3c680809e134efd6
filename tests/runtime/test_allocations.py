"""`execute` allocates nothing, however many threads there are; loading does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from executorch_vpu import VpuPartitioner
from executorch_vpu.backend.serialize import serialize
from tests.models import OpZooNet, TinyConvNet
from tests.support.builds import needs_tools
from tests.support.pipeline import lower_whole, quantize

pytestmark = needs_tools("c++")

IMAGE = (1, 3, 64, 64)
EXECUTIONS = 20

# A script prints how many allocations there were while the program of the file argv[1] was loaded,
# and in all but the first of its executions on argv[2] threads: that one starts the threads.
INTERPRETER = f"""
import ctypes, sys
import numpy as np
from executorch_vpu.backend.interpreter import VpuInterpreter
counter = ctypes.CDLL(None)

counter.start_counting()
program = VpuInterpreter(open(sys.argv[1], "rb").read(), threads=int(sys.argv[2]))
print(counter.stop_counting())

inputs = [np.zeros(argument.sizes, argument.dtype) for argument in program.inputs]
program.run(*inputs)
counter.start_counting()
for _ in range({EXECUTIONS}):
    program.run(*inputs)
print(counter.stop_counting())
"""
DELEGATE = f"""
import ctypes, sys
import torch
import executorch_vpu.runtime
from executorch.extension.pybindings.portable_lib import _unsafe_reset_threadpool
from executorch.runtime import Runtime
counter = ctypes.CDLL(None)

_unsafe_reset_threadpool(int(sys.argv[2]))
program = Runtime.get().load_program(sys.argv[1])
counter.start_counting()
method = program.load_method("forward")
print(counter.stop_counting())

inputs = [torch.zeros({IMAGE})]
method.execute(inputs)
counter.start_counting()
for _ in range({EXECUTIONS}):
    method.execute(inputs)
print(counter.stop_counting())
"""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList([TinyConvNet(), OpZooNet()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cat([net(x) for net in self.nets], 1))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What each script loads."""
    inputs = (torch.randn(IMAGE),)
    program = torch.export.export(quantize(Net(), inputs), inputs)
    edge = to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])
    directory = tmp_path_factory.mktemp("programs")
    files = {INTERPRETER: directory / "program.blob", DELEGATE: directory / "program.pte"}
    files[INTERPRETER].write_bytes(serialize(lower_whole(program)[0]))
    files[DELEGATE].write_bytes(edge.to_executorch().buffer)
    return files


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("allocations.cpp")
    library = tmp_path_factory.mktemp("counter") / "liballocations.so"
    command = ["c++", "-std=c++17", "-O2", "-shared", "-fPIC", source, "-o", library, "-ldl"]
    subprocess.run(command, check=True)
    return library


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("script", [INTERPRETER, DELEGATE], ids=["interpreter", "delegate"])
def test_only_loading_allocates(
    script: str, threads: int, programs: dict[str, Path], counter: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, programs[script], str(threads)],
        env={**os.environ, "LD_PRELOAD": str(counter)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    loading, executing = map(int, done.stdout.split())
    assert loading > 10
    assert executing == 0
