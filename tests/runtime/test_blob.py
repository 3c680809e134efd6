"""The interpreter refuses, in words, every blob it cannot run safely."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from executorch_vpu.backend.interpreter import (
    VpuError,
    VpuInterpreter,
    VpuValueError,
    available_isas,
)

from .blobs import (
    ARENA,
    CONSTANT,
    INPUT,
    INT8,
    blob,
    flatbuffer,
    instruction,
    lookup_program,
    lookup_reference,
    seal,
    tensor,
)

SHAPE = (1, 3, 4, 5)
ISAS = [isa.name for isa in available_isas() if isa.available]


@pytest.fixture
def good() -> bytes:
    return blob(*lookup_program(SHAPE))


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 40, SHAPE).astype(np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_runs(good: bytes, isa: str, threads: int) -> None:
    program = VpuInterpreter(good, isa, threads)
    assert program.isa == isa
    for seed in range(3):
        x = image(seed)
        y, q = program.run(x)
        expected, expected_q = lookup_reference(x)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(q, expected_q)


def test_describes_itself(good: bytes) -> None:
    program = VpuInterpreter(good)
    (x,) = program.inputs
    assert (x.dtype, x.sizes, x.dim_order) == (np.float32, SHAPE, (0, 1, 2, 3))
    assert program.outputs[1].dim_order == (0, 2, 3, 1)
    assert program.outputs[1].zero_point == 5
    assert [i.op for i in program.instructions] == ["Quantize", "Lookup", "Dequantize", "Transpose"]
    assert program.instructions[0].shape == (1, 4, 5, 3)
    assert program.instructions[0].name == "quantize"
    assert program.arena_bytes == 128


def test_intermediates_are_those_of_every_instruction(good: bytes) -> None:
    program = VpuInterpreter(good)
    trace = program.trace(image())
    expected, codes = lookup_reference(image())
    assert [t.shape for t in trace.intermediates] == [i.shape for i in program.instructions]
    np.testing.assert_array_equal(trace.intermediates[1], codes.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(trace.intermediates[2], expected)
    assert len(trace.nanoseconds) == 4 and min(trace.nanoseconds) >= 0


def test_any_memory_layout_of_an_input_is_read_logically(good: bytes) -> None:
    program = VpuInterpreter(good)
    x = image()
    channels_last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(program.run(channels_last)[0], program.run(x)[0])


def test_memory_of_any_alignment(good: bytes) -> None:
    for shift in (1, 4, 8):
        shifted = memoryview(bytes(shift) + good)[shift:]
        y, _ = VpuInterpreter(shifted).run(image())  # type: ignore[arg-type]
        np.testing.assert_array_equal(y, lookup_reference(image())[0])


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((), "takes 1 inputs, got 0"),
        ((np.zeros(SHAPE, np.int8),), "must be an array of float32, got int8"),
        ((np.zeros((1, 4, 5, 3), np.float32),), r"must have shape \(1, 3, 4, 5\)"),
        (([1.0],), "got list"),
    ],
)
def test_wrong_inputs(good: bytes, inputs: tuple[Any, ...], words: str) -> None:
    with pytest.raises(VpuValueError, match=words):
        VpuInterpreter(good).run(*inputs)


def test_wrong_threads_and_isa(good: bytes) -> None:
    with pytest.raises(VpuValueError, match="at least 1"):
        VpuInterpreter(good, threads=0)
    with pytest.raises(VpuError, match=r"'nonsense'.*available here: .*scalar"):
        VpuInterpreter(good, isa="nonsense")


# The container


def test_truncated_anywhere(good: bytes) -> None:
    for size in range(len(good)):
        with pytest.raises(VpuValueError):
            VpuInterpreter(good[:size])


def test_longer_than_declared(good: bytes) -> None:
    with pytest.raises(VpuValueError, match="truncated or damaged"):
        VpuInterpreter(good + bytes(64))


def test_any_flipped_bit(good: bytes) -> None:
    generator = random.Random(1)
    bits = [*range(64 * 8), *generator.sample(range(64 * 8, len(good) * 8), 600)]
    for bit in bits:
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(VpuValueError):
            VpuInterpreter(bytes(damaged))


def test_foreign_data() -> None:
    generator = random.Random(2)
    for size in (0, 1, 63, 64, 65, 4096):
        with pytest.raises(VpuValueError, match="not a VPU program"):
            VpuInterpreter(generator.randbytes(size))


def test_other_version() -> None:
    for version in (0, 2, 1 << 31):
        with pytest.raises(VpuValueError, match=f"format version {version}.*reads version 1"):
            VpuInterpreter(blob(*lookup_program(), version=version))


def test_padding_must_be_zero() -> None:
    data = bytearray(blob(*lookup_program()))
    data[40] = 1
    with pytest.raises(VpuValueError, match="padding"):
        VpuInterpreter(seal(bytes(data)))


def test_header_sizes_that_overflow(good: bytes) -> None:
    for field in (8, 16, 24):
        for value in (0, 1, 63, len(good), 1 << 32, (1 << 64) - 1, (1 << 64) - 64, 1 << 63):
            if struct.unpack_from("<Q", good, field) == (value,):
                continue
            data = bytearray(good)
            struct.pack_into("<Q", data, field, value)
            with pytest.raises(VpuValueError):
                VpuInterpreter(seal(bytes(data)))


# The FlatBuffer


def test_nonsense_in_place_of_the_flatbuffer() -> None:
    generator = random.Random(3)
    _, constants = lookup_program()
    for size in (0, 1, 4, 8, 100, 1000):
        with pytest.raises(VpuValueError, match="not a valid FlatBuffer"):
            VpuInterpreter(blob(generator.randbytes(size), constants))


def try_to_run(data: bytes) -> str:
    """The refusal, or "" if the program loads and runs."""
    try:
        program = VpuInterpreter(data, isa="scalar")
    except VpuError as error:
        assert str(error)
        return str(error)
    if sum(int(np.prod(a.sizes)) for a in (*program.inputs, *program.outputs)) < 1 << 20:
        program.run(*(np.zeros(a.sizes, a.dtype) for a in program.inputs))
    return ""


def test_random_damage_inside_the_flatbuffer_never_crashes() -> None:
    generator = random.Random(4)
    program, constants = lookup_program()
    body = flatbuffer(program)
    for _ in range(4000):
        damaged = bytearray(body)
        for _ in range(generator.choice((1, 1, 2, 8))):
            at = generator.randrange(len(damaged))
            damaged[at] = generator.choice(
                (0, 1, 0x7F, 0x80, 0xFF, damaged[at] ^ 1 << generator.randrange(8))
            )
        try_to_run(blob(bytes(damaged), constants))


Edit = Callable[[Any], None]


def edit(path: str, value: Any) -> Edit:
    """Sets `path`, such as "tensors.1.offset"."""

    def apply(program: Any) -> None:
        *parents, last = path.split(".")
        node = program
        for name in parents:
            node = node[int(name)] if name.isdigit() else getattr(node, name)
        if last.isdigit():
            node[int(last)] = value
        else:
            assert hasattr(node, last), path
            setattr(node, last, value)

    return apply


BAD_FIELDS = [
    ("tensors.1.dtype", 3, "unknown dtype"),
    ("tensors.1.dtype", -1, "unknown dtype"),
    ("tensors.1.storage", 4, "unknown dtype 0 or storage 4"),
    ("tensors.1.shape", [1, 4, 0, 3], "sizes are at least 1"),
    ("tensors.1.shape", [1, 4, -5, 3], "sizes are at least 1"),
    ("tensors.1.shape", [1 << 30, 1 << 30, 1 << 30, 16], "product below"),
    ("tensors.1.shape", [1] * 9, "9 dimensions"),
    ("tensors.1.offset", 128, "outside the 128 bytes of the arena"),
    ("tensors.1.offset", 69, "outside the 128 bytes of the arena"),
    ("tensors.1.offset", (1 << 64) - 1, "outside the 128 bytes of the arena"),
    ("tensors.1.offset", (1 << 64) - 60, "outside the 128 bytes of the arena"),
    ("tensors.3.offset", 32, "instruction 1 .Lookup, lookup. writes over tensor 1"),
    ("tensors.3.offset", 0, "writes over tensor 1"),
    ("tensors.2.offset", 1, "outside the 256 bytes of constants"),
    ("tensors.2.storage", INPUT, "tensor 2 is not what the program declares as input 0"),
    ("tensors.2.storage", ARENA, "outside"),
    ("tensors.0.storage", ARENA, "outside the 128 bytes|not stored as that input"),
    ("tensors.0.dtype", INT8, "Quantize"),
    ("tensors.4.storage", INPUT, "output 0 is tensor 4, which is not stored as that output"),
    ("tensors.5.offset", 0, "output 1 is tensor 5, which is not stored as that output"),
    ("tensors.5.offset", 7, "output 1 is tensor 5, which is not stored as that output"),
    ("arenaSize", 64, "outside the 64 bytes of the arena"),
    ("arenaSize", 1 << 50, "arena of 1125899906842624 bytes"),
    ("inputs.0.tensor", 6, "input 0 is tensor 6, which does not exist"),
    ("inputs.0.tensor", 1, "not stored as that input"),
    ("inputs.0.dimOrder", [0, 2, 3, 1], "sizes and a dim order"),
    ("inputs.0.dimOrder", [0, 1, 2], "sizes and a dim order"),
    ("inputs.0.dimOrder", [0, 1, 1, 3], "sizes and a dim order"),
    ("inputs.0.dimOrder", [0, 1, 2, 200], "sizes and a dim order"),
    ("inputs.0.sizes", [1, 3, 4, 6], "sizes and a dim order"),
    ("outputs.1.dimOrder", [0, 1, 2, 3], "output 1 has sizes and a dim order"),
    ("inputs", [], "not what the program declares as input 0"),
    ("outputs", [], "not what the program declares as output 0"),
    ("instructions.1.inputs", [1, 6], "names tensor 6, which does not exist"),
    ("instructions.1.inputs", [1, (1 << 32) - 1], "names tensor 4294967295"),
    ("instructions.1.output", 6, "names tensor 6, which does not exist"),
    ("instructions.1.output", 2, "instruction 1 .Lookup, lookup. writes tensor 2"),
    ("instructions.1.output", 0, "writes tensor 0"),
    ("instructions.1.inputs", [3, 2], "instruction 1 .Lookup, lookup. reads tensor 3.*no value"),
    ("instructions.1.inputs", [], "instruction 1 .Lookup, lookup.:"),
    ("instructions.1.inputs", [1], "instruction 1 .Lookup, lookup.:"),
    ("instructions.1.inputs", [1, 1], "instruction 1 .Lookup, lookup.:"),
    ("instructions.1.opType", 0, "instruction 1 has no operation"),
    ("instructions.1.opType", 99, "instruction 1 has no operation|not a valid FlatBuffer"),
    ("instructions.2.output", 5, "writes tensor 5, which is an output|Dequantize"),
    ("instructions", [], "no instruction writes output 0"),
    ("instructions.0.op.perm", [0, 2, 3], "instruction 0 .Quantize, quantize.:"),
    ("instructions.0.op.perm", [0, 2, 3, 4], "instruction 0 .Quantize, quantize.:"),
    ("instructions.0.op.perm", [0, 2, 2, 1], "instruction 0 .Quantize, quantize.:"),
    ("instructions.0.op.perm", [0, 1, 2, 3], "instruction 0 .Quantize, quantize.:"),
    ("instructions.0.op.invScale", float("nan"), "instruction 0 .Quantize, quantize.:"),
    ("instructions.0.op.invScale", float("inf"), "instruction 0 .Quantize, quantize.:"),
    ("instructions.2.op.scale", float("nan"), "instruction 2 .Dequantize, dequantize.:"),
]


@pytest.mark.parametrize(("path", "value", "words"), BAD_FIELDS)
def test_inconsistent_program(path: str, value: Any, words: str) -> None:
    program, constants = lookup_program(SHAPE)
    edit(path, value)(program)
    with pytest.raises(VpuValueError, match=words):
        VpuInterpreter(blob(program, constants))


def test_output_written_twice_or_never() -> None:
    program, constants = lookup_program(SHAPE)
    twice = copy.deepcopy(program)
    twice.instructions.append(instruction("Transpose", [3], 5, perm=[0, 1, 2, 3]))
    with pytest.raises(VpuValueError, match=r"instruction 4 .*written before"):
        VpuInterpreter(blob(twice, constants))
    program.instructions.pop()
    with pytest.raises(VpuValueError, match="no instruction writes output 1"):
        VpuInterpreter(blob(program, constants))


def test_reading_what_was_overwritten() -> None:
    """A tensor that shares bytes with tensor 1 is written before tensor 1 is read again."""
    program, constants = lookup_program(SHAPE)
    program.tensors.append(tensor(INT8, ARENA, 30, [10]))
    program.tensors.append(tensor(INT8, CONSTANT, 0, [10]))
    program.instructions.insert(1, instruction("Transpose", [7], 6, perm=[0]))
    with pytest.raises(VpuValueError, match=r"instruction 2 .*tensor 1, which holds no value"):
        VpuInterpreter(blob(program, constants))


def test_a_reshape_is_another_tensor_at_the_same_bytes() -> None:
    program, constants = lookup_program(SHAPE)
    program.tensors.append(tensor(INT8, ARENA, 0, [60], zero_point=-3))
    program.tensors.append(tensor(INT8, ARENA, 64, [60], zero_point=5))
    program.instructions[1] = instruction("Lookup", [6, 2], 7)
    y, _ = VpuInterpreter(blob(program, constants)).run(image())
    np.testing.assert_array_equal(y, lookup_reference(image())[0])


def test_an_output_can_be_read_once_it_is_written() -> None:
    program, constants = lookup_program(SHAPE)
    program.instructions[1].output = 5
    program.instructions[2].inputs = [5]
    program.instructions.pop()
    y, q = VpuInterpreter(blob(program, constants)).run(image())
    np.testing.assert_array_equal(y, lookup_reference(image())[0])
    np.testing.assert_array_equal(q, lookup_reference(image())[1])
    program.instructions[1:3] = program.instructions[2:0:-1]
    with pytest.raises(VpuValueError, match="reads tensor 5, which holds no value"):
        VpuInterpreter(blob(program, constants))


def test_random_fields_never_crash() -> None:
    """Every integer of a program takes values that are small, large, or those of its neighbours."""
    generator = random.Random(5)
    base, constants = lookup_program(SHAPE)
    refused = 0
    for _ in range(2000):
        program = copy.deepcopy(base)
        for _ in range(generator.choice((1, 1, 2, 3))):
            owner = generator.choice(
                [
                    program,
                    *program.tensors,
                    *program.instructions,
                    *program.inputs,
                    *program.outputs,
                    *(i.op for i in program.instructions),
                ]
            )
            change_a_field(owner, generator)
        try:
            data = blob(program, constants)
        except (struct.error, TypeError, OverflowError):
            continue  # a value its field cannot hold
        refused += try_to_run(data) != ""
    assert refused > 500


def change_a_field(owner: Any, generator: random.Random) -> None:
    names = [n for n, v in vars(owner).items() if isinstance(v, int | float | list)]
    if not names:
        return
    name = generator.choice(names)
    value = getattr(owner, name)
    if isinstance(value, float):
        choices = (0.0, -1.0, 1e30, 1e-45, float("nan"), float("inf"))
        setattr(owner, name, generator.choice(choices))
    elif isinstance(value, int):
        setattr(owner, name, number(generator))
    elif value and isinstance(value[0], int):
        value = list(value)
        kind = generator.randrange(3)
        if kind == 0:
            value[generator.randrange(len(value))] = number(generator)
        elif kind == 1:
            value.append(number(generator))
        else:
            value.pop()
        setattr(owner, name, value)


def number(generator: random.Random) -> int:
    extremes = (-1, 1 << 7, 1 << 15, 1 << 16, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 64) - 1)
    return generator.choice((generator.randrange(8), generator.randrange(256), *extremes))
