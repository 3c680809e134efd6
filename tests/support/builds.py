"""Other builds of the interpreter than the installed one, made when a test asks for them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(name: str, *options: str) -> Path:
    """The directory build/<name> with libvpu.so, brought up to date. Skips where it cannot be."""
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for tool in ("cmake", "ninja"):
        if shutil.which(tool, path=tools) is None:
            pytest.skip(f"build/{name} needs {tool}, which is not installed")
    if not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))):
        pytest.skip(f"build/{name} needs a C++ compiler, which is not installed")
    directory = ROOT / "build" / name
    directory.mkdir(parents=True, exist_ok=True)
    configure = [
        *("cmake", "-G", "Ninja", "-S", ROOT, "-B", directory, "-DVPU_BUILD_DELEGATE=OFF"),
        *(f"-DPython_EXECUTABLE={sys.executable}", *options),
    ]
    with Path(directory, "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers of pytest-xdist
        for command in (configure, ["cmake", "--build", directory]):
            result = subprocess.run(
                command, env={**os.environ, "PATH": tools}, capture_output=True, text=True
            )
            assert result.returncode == 0, result.stdout + result.stderr
    return directory
