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

# CMake may be installed beside Python.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def needs_tools(*tools: str) -> pytest.MarkDecorator:
    """Skips where one of the tools, or what CMake needs, is not installed."""
    missing = [t for t in ("cmake", "ninja", *tools) if shutil.which(t, path=PATH) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def build(directory: Path, *options: str) -> Path:
    """The directory, with everything in it as the sources now are."""
    directory.mkdir(parents=True, exist_ok=True)
    configure = [
        *("cmake", "-G", "Ninja", "-S", ROOT, "-B", directory, "-DVPU_BUILD_DELEGATE=OFF"),
        *(f"-DPython_EXECUTABLE={sys.executable}", *options),
    ]
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers of pytest-xdist
        for command in (configure, ["cmake", "--build", directory]):
            done = subprocess.run(
                command, env={**os.environ, "PATH": PATH}, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
    return directory
