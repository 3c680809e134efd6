"""The AArch64 instruction sets, cross-compiled and run by an emulator.

Cases are drawn here, with what the reference makes of them, and written to files; replay.cpp runs
them there. VPU_AARCH64_BUILD is a directory to build in other than build/aarch64.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from executorch_vpu.backend.program import Argument, Instruction, VpuProgram
from executorch_vpu.backend.reference import Reference
from executorch_vpu.backend.serialize import serialize
from tests.models import TinyConvNet
from tests.support.builds import ROOT, build, needs_tools
from tests.support.pipeline import lower_whole, quantize

from .cases import examples

BUILD = Path(os.environ.get("VPU_AARCH64_BUILD", ROOT / "build" / "aarch64"))

pytestmark = needs_tools("aarch64-linux-gnu-g++", "qemu-aarch64")

EXAMPLES = 60  # per instruction
CPUS = {"max": {"asimddp", "i8mm"}, "neoverse-n1": {"asimddp"}, "cortex-a53": set()}
"""What qemu emulates: a CPU, and which of the features in registry.inc it has."""

ROWS: list[tuple[str, str, str]] = re.findall(
    r'^VPU_ISA\((\w+), (\w+), "(.*)"\)$',
    (ROOT / "kernels" / "isa" / "registry.inc").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def available(cpu: str) -> list[str]:
    """The instruction sets that a CPU can run, the best last."""
    return [
        name
        for architecture, name, needs in ROWS
        if architecture in ("ANY", "AARCH64") and CPUS[cpu].issuperset(needs.split())
    ]


class Separable(nn.Module):
    """Depthwise convolutions between pointwise ones."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.project = nn.Conv2d(3, 24, 1), nn.Conv2d(24, 8, 1)
        self.keep = nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.halve = nn.Conv2d(24, 24, 3, padding=1, stride=2, groups=24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.expand(x)
        y: torch.Tensor = self.project(self.halve(self.keep(x) + x))
        return y


@pytest.fixture(scope="module")
def replay() -> Path:
    """The program of replay.cpp, for AArch64."""
    toolchain = str(ROOT / "cmake" / "aarch64-linux-gnu.cmake")
    build(BUILD, "--toolchain", toolchain, "-DVPU_BUILD_TESTS=ON")
    return BUILD / "tests" / "kernels" / "replay"


def emulate(
    replay: Path, cases: Path, cpu: str = "max", isa: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs the cases on one thread and on three. `isa` is what VPU_ISA says there."""
    emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu", cpu, "-E", f"VPU_ISA={isa}"]
    return subprocess.run(
        [*emulator, str(replay), str(cases), "1", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def record(program: VpuProgram, inputs: Sequence[NDArray], case: Path) -> None:
    """Writes the files of a case."""

    def write(suffix: str, arguments: Sequence[Argument], arrays: Sequence[NDArray]) -> None:
        pairs = zip(arguments, arrays, strict=True)
        content = b"".join(array.transpose(a.dim_order).tobytes() for a, array in pairs)
        case.with_suffix(suffix).write_bytes(content)

    case.with_suffix(".blob").write_bytes(serialize(program))
    write(".inputs", program.inputs, inputs)
    write(".outputs", program.outputs, Reference(program).run(inputs))


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of two cases."""
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 16, 16),)
    directory = tmp_path_factory.mktemp("networks")
    for name, network in {"residual": TinyConvNet(), "separable": Separable()}.items():
        program, _ = lower_whole(torch.export.export(quantize(network, inputs), inputs))
        record(program, [x.numpy() for x in inputs], directory / name)
    return directory


@pytest.mark.parametrize("name", sorted(Instruction.classes))
def test_matches_its_reference(name: str, replay: Path, tmp_path: Path) -> None:
    cases = examples(name, EXAMPLES)
    assert len(cases) >= EXAMPLES / 2
    for i, case in enumerate(cases):
        record(case.program(), case.arguments(), tmp_path / f"{name}-{i}")
    done = emulate(replay, tmp_path)
    assert done.returncode == 0, done.stdout
    for isa in available("max"):
        assert f"{isa}: {len(cases)} cases match\n" in done.stdout


@pytest.mark.parametrize("cpu", CPUS)
def test_networks_run_on_the_sets_a_cpu_has_and_on_no_other(
    cpu: str, replay: Path, networks: Path
) -> None:
    done = emulate(replay, networks, cpu)
    assert done.returncode == 0, done.stdout
    says = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    sets = available(cpu)
    assert says.pop("chosen") == sets[-1]
    assert set(says) == {name for _, name, _ in ROWS}
    for architecture, name, needs in ROWS:
        lacks = " ".join(feature for feature in needs.split() if feature not in CPUS[cpu])
        if name in sets:
            assert says[name] == "2 cases match"
        elif architecture == "AARCH64":
            assert f"lacks {lacks}; available here: {', '.join(sets)}" in says[name]
        else:
            assert f"it is for the architecture {architecture}" in says[name]


def test_the_environment_variable_chooses(replay: Path, networks: Path) -> None:
    for isa in available("max"):
        assert f"chosen: {isa}\n" in emulate(replay, networks, isa=isa).stdout


def test_a_wrong_bit_is_noticed(replay: Path, networks: Path, tmp_path: Path) -> None:
    shutil.copytree(networks, tmp_path, dirs_exist_ok=True)
    outputs = tmp_path / "separable.outputs"
    content = bytearray(outputs.read_bytes())
    content[0] ^= 1
    outputs.write_bytes(content)
    done = emulate(replay, tmp_path)
    assert done.returncode == 1
    for isa in available("max"):
        assert f"separable: differs on {isa} with 3 threads\n" in done.stdout
    assert "residual: differs" not in done.stdout


def test_a_sets_file_defines_nothing_that_the_linker_would_merge(replay: Path) -> None:
    nm = ["aarch64-linux-gnu-nm", "--demangle", "--extern-only", "--defined-only"]
    for isa in available("max"):
        file = BUILD / "CMakeFiles" / "vpu.dir" / "kernels" / "isa" / f"{isa}.cpp.o"
        done = subprocess.run([*nm, str(file)], capture_output=True, text=True, check=True)
        symbols = [line.split(maxsplit=2)[2] for line in done.stdout.splitlines()]
        assert symbols == [f"vpu::isa::{isa}_isa"]
