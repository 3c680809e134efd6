"""Runs a VPU program from Python without ExecuTorch or torch: for tests, tools and comparisons."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .installed import package_file

Array = npt.NDArray[Any]

_DTYPES = (np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.float32))  # by vpu_dtype
_UNAVAILABLE, _BUSY = 3, 5  # of vpu_code; the others are about what was passed
_CACHE_LINE = 64


class VpuError(RuntimeError):
    """The VPU cannot load or run a program; the message says why."""


class VpuValueError(VpuError, ValueError):
    """What was passed is not a program this VPU reads, or not what the program takes."""


@dataclass(frozen=True)
class Argument:
    """One input or output. int8 values mean scale * (value - zero_point)."""

    name: str
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]  # dimension i in memory is logical dimension dim_order[i]
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Instruction:
    """One instruction, and its output as it lies in memory."""

    op: str  # as in the schema: "Conv2d"
    name: str  # the source ops: "conv2d+relu"
    debug_id: int
    macs: int  # multiply-accumulates
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    zero_point: int


@dataclass(frozen=True)
class Isa:
    """An instruction set the library knows, and why it is not available, if it is not."""

    name: str
    available: bool
    reason: str


@dataclass(frozen=True)
class Trace:
    """What one execution did, instruction by instruction."""

    outputs: list[Array]  # final outputs, in logical shape
    intermediates: list[Array]  # each instruction's output, as it lies in memory
    nanoseconds: list[int]  # the time each instruction took


class VpuInterpreter:
    """A loaded VPU program.

    `blob` is what VpuBackend.preprocess makes of a subgraph. `isa` names the instruction set to run
    on; None is the VPU_ISA environment variable, else the best this CPU has. `threads` is how many
    threads an execution uses. `memory_limit` (bytes that loading may take) and `work_limit`
    (operations of one execution) refuse a program that costs more; 0 is VPU_MEMORY_LIMIT and
    VPU_WORK_LIMIT in the environment, else the defaults of vpu_limits in vpu.h.
    """

    def __init__(
        self,
        blob: bytes,
        isa: str | None = None,
        threads: int = 1,
        memory_limit: int = 0,
        work_limit: int = 0,
    ) -> None:
        if threads < 1:
            raise VpuValueError(f"threads must be at least 1, got {threads}")
        self._lib = _library()
        data = np.frombuffer(blob, np.uint8)
        limits = _Limits(memory_limit, work_limit)
        self._threads = threads
        self._program: ctypes.c_void_p | None = None
        program = ctypes.c_void_p()
        _check(
            self._lib.vpu_load_within(
                data.ctypes.data,
                data.size,
                (isa or "").encode(),
                threads,
                ctypes.byref(limits),
                ctypes.byref(program),
            )
        )
        self._program = program
        self.inputs = [
            self._argument(self._lib.vpu_input_at, i)
            for i in range(self._lib.vpu_input_count(program))
        ]
        self.outputs = [
            self._argument(self._lib.vpu_output_at, i)
            for i in range(self._lib.vpu_output_count(program))
        ]
        self.instructions = [
            self._instruction(i) for i in range(self._lib.vpu_instruction_count(program))
        ]

    @classmethod
    def load(cls, blob: bytes, isa: str | None = None, threads: int = 1) -> VpuInterpreter:
        """The same as the constructor."""
        return cls(blob, isa, threads)

    def __del__(self) -> None:
        if getattr(self, "_program", None) is not None:
            self._lib.vpu_destroy(self._program)
            self._program = None

    @property
    def isa(self) -> str:
        """The instruction set the program runs on."""
        name: bytes = self._lib.vpu_isa_of(self._program)
        return name.decode()

    @property
    def arena_bytes(self) -> int:
        """The size of the memory that holds the activations between instructions."""
        return int(self._lib.vpu_arena_bytes(self._program))

    def run(self, *inputs: Array) -> list[Array]:
        """The outputs, in logical shape, for inputs in logical shape and any memory layout."""
        return self._execute(inputs, None)

    def run_with_intermediates(self, *inputs: Array) -> tuple[list[Array], list[Array]]:
        """The outputs, and each instruction's output as it lies in memory."""
        trace = self.trace(*inputs)
        return trace.outputs, trace.intermediates

    def trace(self, *inputs: Array) -> Trace:
        """Runs once and records each instruction's output and time."""
        intermediates = [np.empty(i.shape, i.dtype) for i in self.instructions]
        nanoseconds = np.zeros(len(self.instructions), np.int64)
        pointers = _pointers(intermediates)
        record = _Trace(nanoseconds.ctypes.data, ctypes.cast(pointers, ctypes.c_void_p))
        outputs = self._execute(inputs, ctypes.byref(record))
        return Trace(outputs, intermediates, [int(t) for t in nanoseconds])

    def time(self, *inputs: Array, runs: int) -> npt.NDArray[np.int64]:
        """The nanoseconds each instruction took, [runs, instructions], in so many runs in a row."""
        stored = [_at_cache_line(array) for array in self._stored(inputs)]
        results = [_at_cache_line(array) for array in self._results()]
        nanoseconds = np.zeros((runs, len(self.instructions)), np.int64)
        _check(
            self._lib.vpu_time(
                self._program,
                _pointers(stored),
                _pointers(results),
                self._threads,
                runs,
                nanoseconds.ctypes.data,
            )
        )
        return nanoseconds

    def _execute(self, inputs: Sequence[Array], trace: Any) -> list[Array]:
        stored, results = self._stored(inputs), self._results()
        _check(
            self._lib.vpu_execute(
                self._program, _pointers(stored), _pointers(results), self._threads, trace
            )
        )
        return [
            array.transpose(np.argsort(argument.dim_order))
            for array, argument in zip(results, self.outputs, strict=True)
        ]

    def _stored(self, inputs: Sequence[Array]) -> list[Array]:
        """The inputs as the program reads them."""
        if len(inputs) != len(self.inputs):
            raise VpuValueError(f"the program takes {len(self.inputs)} inputs, got {len(inputs)}")
        return [
            _to_memory(array, argument, index)
            for index, (array, argument) in enumerate(zip(inputs, self.inputs, strict=True))
        ]

    def _results(self) -> list[Array]:
        """Room for the outputs as the program writes them."""
        return [np.empty([a.sizes[d] for d in a.dim_order], a.dtype) for a in self.outputs]

    def _argument(self, query: Any, index: int) -> Argument:
        raw = _Argument()
        _check(query(self._program, index, ctypes.byref(raw)))
        return Argument(
            name=_text(raw.name),
            dtype=_DTYPES[raw.dtype],
            sizes=tuple(raw.sizes[: raw.rank]),
            dim_order=tuple(raw.dim_order[: raw.rank]),
            scale=raw.scale,
            zero_point=raw.zero_point,
        )

    def _instruction(self, index: int) -> Instruction:
        raw = _Instruction()
        _check(self._lib.vpu_instruction_at(self._program, index, ctypes.byref(raw)))
        return Instruction(
            op=_text(raw.op),
            name=_text(raw.name),
            debug_id=raw.debug_id,
            macs=raw.macs,
            dtype=_DTYPES[raw.dtype],
            shape=tuple(raw.shape[: raw.rank]),
            zero_point=raw.zero_point,
        )


def available_isas() -> list[Isa]:
    """Every instruction set the library knows, the best last."""
    lib = _library()
    isas = []
    for index in range(lib.vpu_isa_count()):
        raw = _Isa()
        _check(lib.vpu_isa_at(index, ctypes.byref(raw)))
        isas.append(Isa(_text(raw.name), bool(raw.available), raw.reason.decode()))
    return isas


def isa_peak(isa: str | None, iterations: int) -> tuple[int, int]:
    """How fast a set's multiply instruction is: so many repetitions of it, on registers alone.

    Args:
        isa: as for VpuInterpreter.
    Returns:
        The multiply-accumulates that were done, 0 if the set does not say, and nanoseconds.
    """
    macs, nanoseconds = ctypes.c_int64(), ctypes.c_int64()
    _check(
        _library().vpu_isa_peak(
            (isa or "").encode(), iterations, ctypes.byref(macs), ctypes.byref(nanoseconds)
        )
    )
    return macs.value, nanoseconds.value


# The structs of kernels/capi/vpu.h.


class _Argument(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("dim_order", ctypes.POINTER(ctypes.c_uint8)),
        ("rank", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("zero_point", ctypes.c_int32),
        ("scale", ctypes.c_float),
    )


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int32)),
        ("rank", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("zero_point", ctypes.c_int32),
        ("debug_id", ctypes.c_int32),
        ("macs", ctypes.c_int64),
    )


class _Limits(ctypes.Structure):
    _fields_ = (("memory", ctypes.c_uint64), ("work", ctypes.c_uint64))


class _Isa(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("reason", ctypes.c_char_p),
        ("available", ctypes.c_int32),
    )


class _Trace(ctypes.Structure):
    _fields_ = (("nanoseconds", ctypes.c_void_p), ("outputs", ctypes.c_void_p))


@functools.cache
def _library() -> ctypes.CDLL:
    other = os.environ.get("VPU_LIBRARY")  # another build, such as one with sanitizers
    lib = ctypes.CDLL(other or str(package_file("executorch_vpu", "lib/libvpu.so")))
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "vpu_version": (ctypes.c_char_p, []),
        "vpu_last_error": (ctypes.c_char_p, []),
        "vpu_isa_count": (size, []),
        "vpu_isa_at": (ctypes.c_int, [size, pointer]),
        "vpu_isa_peak": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int64, pointer, pointer]),
        "vpu_load_within": (
            ctypes.c_int,
            [pointer, size, ctypes.c_char_p, integer, pointer, pointer],
        ),
        "vpu_destroy": (None, [pointer]),
        "vpu_isa_of": (ctypes.c_char_p, [pointer]),
        "vpu_arena_bytes": (size, [pointer]),
        "vpu_input_count": (size, [pointer]),
        "vpu_output_count": (size, [pointer]),
        "vpu_instruction_count": (size, [pointer]),
        "vpu_input_at": (ctypes.c_int, [pointer, size, pointer]),
        "vpu_output_at": (ctypes.c_int, [pointer, size, pointer]),
        "vpu_instruction_at": (ctypes.c_int, [pointer, size, pointer]),
        "vpu_execute": (ctypes.c_int, [pointer, pointer, pointer, integer, pointer]),
        "vpu_time": (ctypes.c_int, [pointer, pointer, pointer, integer, size, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")  # a program's names may be any bytes


def _check(code: int) -> None:
    if code == 0:
        return
    message = _text(_library().vpu_last_error())
    raise (VpuError if code in (_UNAVAILABLE, _BUSY) else VpuValueError)(message)


def _at_cache_line(array: Array) -> Array:
    """A copy that starts where a runtime's tensors do."""
    room = np.empty(array.nbytes + _CACHE_LINE, np.uint8)
    start = -room.ctypes.data % _CACHE_LINE
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _to_memory(array: Array, argument: Argument, index: int) -> Array:
    """The array with its dimensions in the order the program reads them."""
    if not isinstance(array, np.ndarray) or array.dtype != argument.dtype:
        got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise VpuValueError(f"input {index} must be an array of {argument.dtype}, got {got}")
    if array.shape != argument.sizes:
        raise VpuValueError(f"input {index} must have shape {argument.sizes}, got {array.shape}")
    return np.require(array.transpose(argument.dim_order), requirements=["C", "A"])


def _pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))
