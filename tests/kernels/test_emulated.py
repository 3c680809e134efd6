"""The instruction sets of x86 on any CPU: their files, compiled against tests/emulation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builds import ROOT, build, needs_tools

pytestmark = [
    needs_tools("c++"),
    pytest.mark.skipif("VPU_LIBRARY" in os.environ, reason="VPU_LIBRARY names the build to test"),
]


@pytest.fixture(scope="module")
def emulated() -> Path:
    return build(ROOT / "build" / "emulated", "-DVPU_EMULATE=ON")


def run(emulated: Path, *command: str) -> str:
    """What a command prints whose interpreter is the emulated one."""
    environment = {**os.environ, "VPU_LIBRARY": str(emulated / "libvpu.so")}
    result = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_has_every_set_of_x86_and_says_what_it_is(emulated: Path) -> None:
    code = """
from executorch_vpu.backend import interpreter
for isa in interpreter.available_isas():
    print(isa.name, isa.available)
print(interpreter._library().vpu_version().decode())
"""
    *sets, version = run(emulated, "-c", code).splitlines()
    assert version.endswith("+emulated")
    rows = Path(ROOT, "kernels/isa/registry.inc").read_text().splitlines()
    for name in (row.split(", ")[1] for row in rows if row.startswith("VPU_ISA(X86_64")):
        assert f"{name} True" in sets


def test_every_instruction_matches_its_reference(emulated: Path) -> None:
    run(emulated, "-m", "pytest", "-q", "tests/kernels/test_instructions.py")


def test_what_a_cpu_refuses_aborts(emulated: Path) -> None:
    program = emulated / "tests/emulation/emulation_faults"
    faults = subprocess.check_output([program], text=True).split()
    assert len(faults) > 5
    for fault in faults:
        result = subprocess.run([program, fault], capture_output=True, text=True)
        assert result.returncode == -signal.SIGABRT, fault
        assert "emulated CPU: " in result.stderr, fault
