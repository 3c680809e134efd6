"""What a loaded program holds: its constants, once in a process, and nothing of the blob."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.runtime import Runtime
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import executorch_vpu.runtime  # noqa: F401
from executorch_vpu.backend.interpreter import VpuError, VpuInterpreter
from executorch_vpu.backend.ops.linear import Linear
from executorch_vpu.backend.program import (
    Argument,
    Buffer,
    DType,
    Instruction,
    Step,
    Storage,
    Tensor,
    VpuProgram,
)
from executorch_vpu.backend.reference import Reference
from executorch_vpu.backend.serialize import serialize
from tests.kernels.cases import STRATEGIES

from .blobs import blob, lookup_program
from .conftest import MakePte

LARGE, SMALL = 2048, 80  # features
LAYER = LARGE * LARGE  # bytes
ISA = "scalar"  # for large layers: where other sets are emulated, they take long


def layers(*seeds: int, size: int = LARGE) -> VpuProgram:
    """Linear layers side by side: each has the weights of its seed, and an output."""
    program = VpuProgram()

    def add(storage: Storage, dtype: DType, data: np.ndarray, position: int = 0) -> int:
        kept = data if storage is Storage.CONSTANT else None
        buffer = Buffer(storage, data.nbytes, position, kept)
        program.tensors.append(Tensor(buffer, dtype, data.shape))
        return len(program.tensors) - 1

    row = np.zeros((1, size), np.int8)
    x = add(Storage.INPUT, DType.INT8, row)
    program.inputs.append(Argument(x, row.shape, (0, 1)))
    for position, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        weight = rng.integers(-127, 128, (size, size), np.int8)
        bias = rng.integers(-999, 999, size, np.int32)
        multiplier = np.full(size, 1e-4, np.float32)
        operands = (
            x,
            add(Storage.CONSTANT, DType.INT8, weight),
            add(Storage.CONSTANT, DType.INT32, bias),
            add(Storage.CONSTANT, DType.FLOAT32, multiplier),
        )
        y = add(Storage.OUTPUT, DType.INT8, row, position)
        program.outputs.append(Argument(y, row.shape, (0, 1)))
        program.steps.append(Step(Linear(), operands, y))
    return program


def image(size: int = LARGE) -> np.ndarray:
    return np.random.default_rng(0).integers(-128, 128, (1, size), np.int8)


def expected(program: VpuProgram, size: int = LARGE) -> list[np.ndarray]:
    return Reference(program).run([image(size)])


def check(interpreter: VpuInterpreter, outputs: list[np.ndarray], size: int = LARGE) -> None:
    for found, correct in zip(interpreter.run(image(size)), outputs, strict=True):
        np.testing.assert_array_equal(found, correct)


def resident() -> int:
    """The bytes of the process's memory that are no file's."""
    gc.collect()
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in x)
    return 1024 * int(line.split()[1])


def mapped(path: Path) -> int:
    """The bytes of a file that the process has mapped."""
    lines = [x.split() for x in Path("/proc/self/maps").read_text().splitlines()]
    ranges = [line[0].split("-") for line in lines if line[-1] == str(path)]
    return sum(int(end, 16) - int(begin, 16) for begin, end in ranges)


@pytest.fixture
def small_pages() -> Iterator[None]:
    """Without huge pages, which the kernel fills again in its own time where a piece was given
    back: what is counted is what the programs hold."""
    set_thp_disable = 41
    prctl = ctypes.CDLL(None).prctl
    prctl(set_thp_disable, 1, 0, 0, 0)
    yield
    prctl(set_thp_disable, 0, 0, 0, 0)


def check_layers_since(before: int, count: int) -> None:
    """That the process holds so many layers more. Sanitizers hold memory of their own."""
    if "san.so" not in os.environ.get("LD_PRELOAD", ""):
        assert (resident() - before) / LAYER == pytest.approx(count, abs=0.6)


@pytest.mark.usefixtures("small_pages")
def test_equal_constants_are_held_once() -> None:
    programs = [layers(1, 2), layers(1, 2), layers(2, 1)]
    outputs = [expected(program) for program in programs]
    data = [serialize(program) for program in programs]
    before = resident()
    loaded = []
    for i in range(len(data)):
        loaded.append(VpuInterpreter(data[i], ISA))
        check_layers_since(before, 2)
        check(loaded[i], outputs[i])
    check(loaded[0], outputs[0])


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_constants_live_as_long_as_a_program_has_them(order: tuple[int, ...]) -> None:
    """Layers 1, 2, 3, 4 of three programs, of which each has two."""
    programs = [layers(1, 2), layers(2, 3), layers(3, 4)]
    outputs = [expected(program) for program in programs]
    data = [serialize(program) for program in programs]
    before = resident()
    loaded = {i: VpuInterpreter(data[i], ISA) for i in order}
    for i in order:
        needed = {seed for j in loaded for seed in (j + 1, j + 2)}
        check_layers_since(before, len(needed))
        for j, interpreter in loaded.items():
            check(interpreter, outputs[j])
        del loaded[i], interpreter
    check_layers_since(before, 0)


@pytest.mark.usefixtures("small_pages")
def test_methods_of_a_file_hold_their_constants_once(make_pte: MakePte, tmp_path: Path) -> None:
    program, x = layers(1, 2), torch.from_numpy(image())
    outputs = expected(program)
    path = tmp_path / "two.pte"
    path.write_bytes(make_pte(serialize(program), TwoOutputs(), x, ["first", "second"]))
    loaded = Runtime.get().load_program(path)
    before = resident()
    for method in [loaded.load_method(name) for name in ("first", "second")]:
        assert method is not None
        assert mapped(path) < LAYER
        check_layers_since(before, 2)
        for found, correct in zip(method.execute([x]), outputs, strict=True):
            np.testing.assert_array_equal(found.numpy(), correct)


class TwoOutputs(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x + 2


def test_programs_come_and_go_in_several_threads() -> None:
    programs = [layers(*seeds, size=SMALL) for seeds in ((1, 2), (2, 3), (1, 3), (1, 2))]
    outputs = [expected(program, SMALL) for program in programs]
    data = [serialize(program) for program in programs]

    def load_and_run(i: int) -> None:
        check(VpuInterpreter(data[i % len(data)]), outputs[i % len(data)], SMALL)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load_and_run, range(400)))


@pytest.mark.parametrize("name", sorted(Instruction.classes))
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_blob_is_not_read_once_loaded(name: str, data: Any) -> None:
    case = data.draw(STRATEGIES[name])
    memory = np.frombuffer(serialize(case.program()), np.uint8).copy()
    interpreter = VpuInterpreter(memory.data)  # type: ignore[arg-type]
    memory[:] = 0xA5
    (found,) = interpreter.run(*case.arguments())
    (correct,) = Reference(case.program()).run(case.arguments())
    assert found.tobytes() == correct.tobytes()


@contextmanager
def memory_for(more: int) -> Iterator[None]:
    """Within it the process gets so many bytes more and no others."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_too_little_memory_is_said() -> None:
    program, constants = lookup_program()
    program.arenaSize = 1 << 33
    with memory_for(1 << 20), pytest.raises(VpuError, match="no memory for the arena of 85899345"):
        VpuInterpreter(blob(program, constants), memory_limit=1 << 34)
    data = serialize(layers(1, 2))
    with memory_for(LAYER), pytest.raises(VpuError, match="no memory to prepare the VPU program"):
        VpuInterpreter(data, ISA)
    check(VpuInterpreter(data, ISA), expected(layers(1, 2)))
