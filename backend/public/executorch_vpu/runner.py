"""The command vpu_runner: starts the program of that name that is installed in this package."""

import os
import sys

from .backend.installed import check_executorch_version, package_file


def main() -> None:
    """Becomes vpu_runner. Its run path finds ExecuTorch in the same site-packages; the library
    path finds it elsewhere."""
    try:
        check_executorch_version()
        program = package_file("executorch_vpu", "bin/vpu_runner")
        libraries = package_file("executorch", "lib")
    except ImportError as error:
        sys.exit(f"vpu_runner: {error}")
    path = os.environ.get("LD_LIBRARY_PATH")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{path}{os.pathsep}{libraries}" if path else str(libraries),
    }
    os.execve(program, [str(program), *sys.argv[1:]], environment)
