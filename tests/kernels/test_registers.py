"""The sums of products stay in registers: a loop that multiplies stores no vector on the stack.

Compilers spill them for reasons that are hard to foresee, and then a kernel takes twice the time.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess

import pytest

from executorch_vpu.backend.installed import package_file

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86-64 instructions"),
    pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump"),
]

LINE = re.compile(r" *([0-9a-f]+):\t(.*)")
BRANCH = re.compile(r"j(?!mp)\w+ +([0-9a-f]+) ")  # a conditional one, as loops end with
VECTOR_TO_STACK = re.compile(r"v?mov\w+ +%[xyz]mm\d+,.*\(%r[sb]p")


def innermost_loops(disassembly: str) -> list[list[str]]:
    """The instructions from where a branch goes back to, to the branch, without another in it."""
    lines = [match.groups() for match in map(LINE.match, disassembly.splitlines()) if match]
    index = {int(address, 16): i for i, (address, _) in enumerate(lines)}
    loops, last = [], -1
    for i, (_, instruction) in enumerate(lines):
        branch = BRANCH.match(instruction)
        start = index.get(int(branch[1], 16), i + 1) if branch else i + 1
        if start > i:
            continue
        if start > last:
            loops.append([instruction for _, instruction in lines[start : i + 1]])
        last = i
    return loops


@pytest.fixture(scope="module")
def loops() -> list[list[str]]:
    library = os.environ.get("VPU_LIBRARY") or package_file("executorch_vpu", "lib/libvpu.so")
    command = ["objdump", "-d", "--no-show-raw-insn", str(library)]
    return innermost_loops(subprocess.check_output(command, text=True))


# Of AMX the sums are in tiles, which no compiler allocates.
@pytest.mark.parametrize("multiply", ["vpmaddwd", "vpdpbusd"])
def test_no_loop_that_multiplies_spills(multiply: str, loops: list[list[str]]) -> None:
    multiplying = [loop for loop in loops if sum(i.startswith(multiply) for i in loop) >= 4]
    assert len(multiplying) >= 5  # one for each number of rows but one
    for loop in multiplying:
        spills = [i for i in loop if VECTOR_TO_STACK.match(i)]
        assert not spills, "\n".join(loop)
