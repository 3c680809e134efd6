"""The runtimes that whole models are measured on, each set up as it is fastest.

All run the same float model, quantized to int8 with the same images: float32 image in, float32
logits out, conversions included. None may use more threads than it is told, or spin between its
runs, which would slow down whoever comes next.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from .artifacts import INPUT, ONNX, VPU_PTE, XNNPACK_PTE, Artifact
from .command import INSTALL

Run = Callable[[], object]  # np.asarray makes an array of what it returns


@dataclass(frozen=True)
class Peer:
    """A runtime."""

    name: str
    title: str
    package: str
    artifact: Artifact
    load: Callable[[Path, int, NDArray[np.float32]], Run]  # model, threads, image -> one inference

    @property
    def packages(self) -> tuple[str, ...]:
        return (self.package, *self.artifact.packages)

    def missing(self) -> str | None:
        """Why it cannot be measured here, and what to do."""
        absent = [package for package in self.packages if not _is_installed(package)]
        return f"{', '.join(dict.fromkeys(absent))} not installed: {INSTALL}" if absent else None


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _load_vpu(model: Path, threads: int, image: NDArray[np.float32]) -> Run:
    import executorch_vpu.runtime  # noqa: F401

    return _load_executorch(model, threads, image)


def _load_executorch(model: Path, threads: int, image: NDArray[np.float32]) -> Run:
    from executorch.runtime import Runtime

    set_threads(threads)
    program = Runtime.get().load_program(model)
    method = program.load_method("forward")
    assert method is not None
    inputs = [torch.from_numpy(image)]

    def run(program: object = program) -> object:  # which the method reads
        return method.execute(inputs)[0]

    return run


@functools.cache
def set_threads(threads: int) -> None:
    """Of ExecuTorch's pool, once: a loaded method keeps the pool there was, even after a reset."""
    from executorch.extension.pybindings.portable_lib import _unsafe_reset_threadpool

    _unsafe_reset_threadpool(threads)


def _load_onnxruntime(model: Path, threads: int, image: NDArray[np.float32]) -> Run:
    """Its threads spin while it runs, which is fastest, and stop when it is done."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {INPUT: image})[0]


def _load_openvino(model: Path, threads: int, image: NDArray[np.float32]) -> Run:
    """One stream, for latency. Unpinned: a pinned thread waits for its CPU while another is idle.

    Where the CPU has bfloat16, it computes what is not int8 in that, by its own default.
    """
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_CPU_PINNING": False,
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    request.set_input_tensor(openvino.Tensor(image, shared_memory=True))

    def run() -> object:
        request.infer(share_outputs=True)
        return request.get_output_tensor().data

    return run


VPU = Peer("vpu", "VPU", "executorch-vpu", VPU_PTE, _load_vpu)
PEERS = {
    peer.name: peer
    for peer in (
        Peer("xnnpack", "XNNPACK", "executorch", XNNPACK_PTE, _load_executorch),
        Peer("onnxruntime", "ONNX Runtime", "onnxruntime", ONNX, _load_onnxruntime),
        Peer("openvino", "OpenVINO", "openvino", ONNX, _load_openvino),
    )
}
