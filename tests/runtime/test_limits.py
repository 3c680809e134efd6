"""What a program may cost is bounded: a small blob can ask for very much."""

from __future__ import annotations

import functools
import random
from typing import Any

import flatbuffers
import pytest

from executorch_vpu.backend.interpreter import VpuError, VpuInterpreter, VpuValueError
from executorch_vpu.schema import vpu_generated as fbs

from .blobs import (
    ARENA,
    CONSTANT,
    FLOAT32,
    INPUT,
    INT8,
    INT32,
    OUTPUT,
    argument,
    blob,
    instruction,
    lookup_program,
    tensor,
)

MANY = 1000


def load(program: Any, constants: bytes = b"", **limits: int) -> VpuInterpreter:
    return VpuInterpreter(blob(program, constants), isa="scalar", **limits)


def shared(program: Any) -> bytes:
    """The FlatBuffer, in which an instruction that is listed many times stands once."""
    for one in {id(i): i for i in program.instructions}.values():
        one.Pack = functools.cache(one.Pack)
    builder = flatbuffers.Builder(1024)
    builder.Finish(program.Pack(builder), b"VPU1")
    return bytes(builder.Output())


def conv_program(width: int, channels: int, taps: int, **fields: int) -> tuple[Any, bytes]:
    """A convolution of a row of `width` pixels that gives one pixel."""
    p = fbs.ProgramT()
    groups = fields.get("groups", 1)
    count = channels * taps * channels // groups
    align = -(-count // 64) * 64
    p.tensors = [
        tensor(INT8, INPUT, 0, [1, 1, width, channels]),
        tensor(INT8, CONSTANT, 0, [channels, 1, taps, channels // groups]),
        tensor(INT32, CONSTANT, align, [channels]),
        tensor(FLOAT32, CONSTANT, align + 64, [channels]),
        tensor(INT8, OUTPUT, 0, [1, 1, 1, channels]),
        tensor(INT8, ARENA, 0, [1, 1, 1, channels]),
    ]
    p.instructions = [
        instruction("Conv2d", [0, 1, 2, 3], 5, **fields),
        instruction("Conv2d", [0, 1, 2, 3], 4, **fields),
    ]
    p.inputs = [argument(0, [1, 1, width, channels], [0, 1, 2, 3])]
    p.outputs = [argument(4, [1, 1, 1, channels], [0, 1, 2, 3])]
    p.arenaSize = 64
    return p, bytes(align) + bytes(128)


def test_padding_of_a_depthwise_convolution() -> None:
    program, constants = conv_program(1 << 29, 2, 1, groups=2)
    with pytest.raises(VpuError, match=r"memory limit of 10737\d+ bytes: .* 1073741824"):
        load(program, constants)
    program, constants = conv_program(1 << 10, 2, 1, groups=2)
    load(program, constants, memory_limit=1 << 15)
    program.instructions[:1] *= MANY  # the padding is one piece of memory, but filled each time
    with pytest.raises(VpuError, match="memory limit of 2097152 bytes"):
        load(program, constants, memory_limit=1 << 21)


def test_padding_of_a_strip() -> None:
    program, constants = conv_program(4, 1, 2, dilationW=1 << 24)
    with pytest.raises(VpuError, match="memory limit of 16777216 bytes"):
        load(program, constants, memory_limit=1 << 24)
    program.instructions[:1] *= MANY
    with pytest.raises(VpuError, match=r"memory limit of 107\d+ bytes"):
        load(program, constants)


def test_scratch_counts_for_every_thread() -> None:
    program, constants = conv_program(4, 1, 2, dilationW=1 << 20)
    load(program, constants, memory_limit=1 << 23, threads=1)
    with pytest.raises(VpuError, match="memory limit of 8388608 bytes"):
        load(program, constants, memory_limit=1 << 23, threads=16)


@pytest.mark.parametrize("field", ["name", "inputs"])
def test_vectors_that_instructions_share(field: str) -> None:
    program, constants = lookup_program()
    setattr(program.instructions[0], field, {"name": "n" * 100_000, "inputs": [0] * 100_000}[field])
    program.instructions[:1] *= MANY
    with pytest.raises(VpuValueError, match=r"share vectors or names: .* are \d+ bytes"):
        VpuInterpreter(blob(shared(program), constants))


def test_windows_that_instructions_share() -> None:
    size = 4096
    windows = fbs.WindowsT()
    windows.begin, windows.end = list(range(size)), list(range(1, size + 1))
    one = fbs.WindowsT()
    one.begin, one.end = [0], [1]
    p = fbs.ProgramT()
    shape = [1, size, 1, 1]
    p.tensors = [tensor(INT8, INPUT, 0, shape), tensor(INT8, ARENA, 0, shape)]
    p.instructions = [instruction("MaxPool2d", [0], 1, rows=windows, columns=one)] * MANY
    p.inputs, p.outputs, p.arenaSize = [argument(0, shape, [0, 1, 2, 3])], [], size
    data = blob(shared(p), b"")
    with pytest.raises(VpuError, match="memory limit of 8388608 bytes"):
        VpuInterpreter(data, memory_limit=1 << 23)
    VpuInterpreter(data, memory_limit=1 << 27)


def test_instructions_that_are_one() -> None:
    program, constants = lookup_program()
    program.instructions[:1] *= 100_000
    with pytest.raises(VpuError, match="memory limit of 16777216 bytes"):
        VpuInterpreter(blob(shared(program), constants), memory_limit=1 << 24)


def test_the_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    program, constants = lookup_program()
    program.arenaSize = (1 << 30) - (4 << 20)  # a large network's; the rest takes little
    load(program, constants)
    program.arenaSize = 1 << 31
    words = r"memory limit of 10737.* now 2147483648 more.*raise the limit \(VPU_MEMORY_LIMIT\)"
    with pytest.raises(VpuError, match=words):
        load(program, constants)
    load(program, constants, memory_limit=1 << 32)
    monkeypatch.setenv("VPU_MEMORY_LIMIT", str(1 << 32))
    load(program, constants)


def test_work_of_an_execution() -> None:
    """Four instructions that write 60 values each."""
    program, constants = lookup_program((1, 3, 4, 5))
    load(program, constants, work_limit=240)
    with pytest.raises(VpuError, match=r"instruction 3 .*takes 240 operations.* limit of 239"):
        load(program, constants, work_limit=239)


def test_work_of_windows() -> None:
    p = fbs.ProgramT()
    p.tensors = [
        tensor(INT8, INPUT, 0, [1, 50, 40, 3]),
        tensor(INT8, OUTPUT, 0, [1, 1, 1, 3]),
    ]
    rows, columns = fbs.WindowsT(), fbs.WindowsT()
    rows.begin, rows.end, columns.begin, columns.end = [0], [50], [0], [40]
    p.instructions = [instruction("MaxPool2d", [0], 1, rows=rows, columns=columns)]
    p.inputs = [argument(0, [1, 50, 40, 3], [0, 1, 2, 3])]
    p.outputs = [argument(1, [1, 1, 1, 3], [0, 1, 2, 3])]
    work = 3 * (1 + 50 * 40)
    load(p, work_limit=work)
    with pytest.raises(VpuError, match=f"takes {work} operations"):
        load(p, work_limit=work - 1)


@pytest.mark.parametrize("variable", ["VPU_MEMORY_LIMIT", "VPU_WORK_LIMIT"])
def test_limits_from_the_environment(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, constants = lookup_program()
    monkeypatch.setenv(variable, "10")
    with pytest.raises(VpuError, match=f"limit of 10( bytes|;).*{variable}"):
        load(program, constants)
    load(program, constants, memory_limit=1 << 20, work_limit=1 << 20)  # what is passed counts
    for text in ("none", "-1", "0", "1x", "99999999999999999999999"):
        monkeypatch.setenv(variable, text)
        with pytest.raises(VpuValueError, match=f"{variable} must be a whole number.*{text}"):
            load(program, constants)


def test_a_value_is_read_only_where_all_of_it_is_live() -> None:
    """Random writes to the arena, against a model of every byte."""
    generator = random.Random(0)
    size, refused = 24, 0
    for _ in range(400):
        p = fbs.ProgramT()
        p.tensors = [tensor(INT8, INPUT, 0, [n]) for n in range(1, size + 1)][:0]
        p.inputs, p.outputs, p.arenaSize = [], [], size
        p.instructions = []
        owner: list[int | None] = [None] * size  # the value each byte belongs to
        wrong = None
        for step in range(generator.randrange(1, 20)):
            length = generator.choice((1, 2, 3, 4, 8))
            to = generator.randrange(size - length + 1)
            reads = generator.random() < 0.6 and any(o is not None for o in owner)
            begin = generator.randrange(size - length + 1) if reads else 0
            overlaps = reads and begin < to + length and to < begin + length
            if overlaps:
                continue
            p.tensors += [
                tensor(INT8, ARENA if reads else CONSTANT, begin, [length]),
                tensor(INT8, ARENA, to, [length]),
            ]
            n = len(p.tensors)
            p.instructions.append(instruction("Transpose", [n - 2], n - 1, perm=[0]))
            if reads and wrong is None and None in owner[begin : begin + length]:
                wrong = n - 2
            ended = {o for o in owner[to : to + length] if o is not None}
            owner = [None if o in ended else o for o in owner]
            owner[to : to + length] = [step] * length
        if wrong is None:
            load(p, bytes(64))
        else:
            refused += 1
            with pytest.raises(VpuValueError, match=f"reads tensor {wrong}, which holds no value"):
                load(p, bytes(64))
    assert 50 < refused < 350


def test_memory_is_counted_as_it_is_taken() -> None:
    """An arena of 1.5 MB takes a huge page of 2 MB."""
    program, constants = lookup_program()
    program.arenaSize = 3 << 19
    load(program, constants, memory_limit=(2 << 20) + 65536)
    with pytest.raises(VpuError, match="more than its memory limit of 2000000 bytes"):
        load(program, constants, memory_limit=2_000_000)
