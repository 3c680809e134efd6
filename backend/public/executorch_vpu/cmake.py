"""Where CMake finds this package and ExecuTorch: `python -m executorch_vpu.cmake` prints the value
of CMAKE_PREFIX_PATH with which find_package(executorch_vpu) works."""

import sys

from .backend.installed import check_executorch_version, package_file


def prefix_path() -> str:
    """The two directories, separated as in a CMake list.

    Raises:
        ImportError: this package or ExecuTorch is not installed whole, or their versions differ.
    """
    check_executorch_version()
    files = (
        package_file("executorch_vpu", "share/cmake/executorch_vpu/executorch_vpu-config.cmake"),
        package_file("executorch", "lib/cmake/executorch/executorch-config.cmake"),
    )
    return ";".join(str(file.parents[3]) for file in files)


if __name__ == "__main__":
    try:
        print(prefix_path())
    except ImportError as error:
        sys.exit(f"executorch_vpu.cmake: {error}")
