"""The delegate in two threads: with a handle each, and with one handle for both."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..support.builds import needs_tools
from .blobs import blob, lookup_program

SOURCE = Path(__file__).with_name("delegate_threads.cpp")

pytestmark = needs_tools("c++")


def test_results_are_right_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.vpu"
    path.write_bytes(blob(*lookup_program((1, 16, 64, 64))))
    done = subprocess.run(
        [_program(tmp_path), path], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("right ")


def _program(directory: Path) -> Path:
    """The program of a build with sanitizers, if tests run on one; else built as users would."""
    library = os.environ.get("VPU_LIBRARY")
    sanitized = library and Path(library).parent / "tests" / "runtime" / "delegate_threads"
    if sanitized and sanitized.exists():
        return sanitized
    from .test_embedding import build, project  # needs PyTorch, which knows no ThreadSanitizer

    source = project(
        directory / "source",
        "project(delegate_threads LANGUAGES CXX)",
        "find_package(executorch_vpu REQUIRED)",
        f"add_executable(delegate_threads {SOURCE})",
        "target_link_libraries(delegate_threads",
        "  PRIVATE executorch_vpu::delegate executorch_vpu::interpreter executorch::threadpool)",
    )
    build(source, directory / "build")
    return directory / "build" / "delegate_threads"
