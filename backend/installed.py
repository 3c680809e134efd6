"""What is installed: the compiled files of this package, and the ExecuTorch they need."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path


def package_file(package: str, name: str) -> Path:
    """The file `name` of an installed package, which is not imported.

    An editable install has two directories: the sources, and what CMake installed.
    """
    spec = find_spec(package)
    directories = list(spec.submodule_search_locations or []) if spec else []
    for directory in directories:
        path = Path(directory, name)
        if path.exists():
            return path
    raise ImportError(
        f"{name} of the package '{package}' is missing from {directories or 'this Python'}: "
        f"reinstall it with pip"
    )


def check_executorch_version() -> None:
    """Raises ImportError if ExecuTorch is not the version the delegate was compiled against.

    Its C++ interfaces change between versions, so that another one would crash rather than fail.
    """
    built = import_module("executorch_vpu.build_info").EXECUTORCH_VERSION
    try:
        found = version("executorch").partition("+")[0]
    except PackageNotFoundError:
        found = "none"
    if found != built:
        raise ImportError(
            f"executorch-vpu was built against ExecuTorch {built}, found {found}: reinstall with "
            f"pip install executorch=={built}, or reinstall executorch-vpu"
        )
