"""Importing this module makes VpuBackend known to ExecuTorch's Python runtime:

    import executorch_vpu.runtime
    from executorch.runtime import Runtime

    program = Runtime.get().load_program("model.pte")
    method = program.load_method("forward")
    outputs = method.execute([image])

It also loads ExecuTorch's quantized kernels, which a program needs where it quantizes or
dequantizes outside the VPU. Importing it again does nothing.

Raises ImportError, in words, if the installed ExecuTorch is not the version this package was built
against, or if the delegate cannot be loaded. Environment: VPU_ISA names the instruction set to use
instead of the best the CPU has.

A loaded method keeps the thread pool it was loaded with: change the number of threads
(executorch.extension.pybindings.portable_lib._unsafe_reset_threadpool) before loading methods.
"""

import ctypes
from importlib import import_module

from .backend.installed import check_executorch_version, package_file


def _register() -> None:
    check_executorch_version()
    # First of all: the delegate binds to the ExecuTorch runtime that this loads.
    runtime = import_module("executorch.runtime")
    import_module("executorch.kernels.quantized")
    for name in ("libexecutorch.so", "libexecutorch_threadpool.so"):
        ctypes.CDLL(str(package_file("executorch", f"lib/{name}")))
    library = package_file("executorch_vpu", "lib/libexecutorch_vpu.so")
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        raise ImportError(f"The VPU delegate cannot be loaded: {error}") from error
    names = runtime.Runtime.get().backend_registry.registered_backend_names
    if "VpuBackend" not in names:
        raise ImportError(
            f"{library} was loaded, but ExecuTorch's runtime lists only the backends {names}: "
            f"is more than one ExecuTorch installed?"
        )


_register()
