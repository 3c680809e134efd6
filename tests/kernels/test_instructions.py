"""Every instruction on every instruction set gives, bit for bit, what its reference says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from executorch_vpu.backend.interpreter import VpuInterpreter, available_isas
from executorch_vpu.backend.memory import plan_arena
from executorch_vpu.backend.ops.lookup import Lookup
from executorch_vpu.backend.program import (
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
from executorch_vpu.schema import vpu_generated as fbs

from .cases import STRATEGIES, Case, Value, make

ISAS = [isa.name for isa in available_isas() if isa.available]


def check(case: Case, threads: int) -> None:
    check_program(case.program(), case.arguments(), threads)


def check_program(program: VpuProgram, arguments: list[NDArray[Any]], threads: int) -> None:
    (expected,) = Reference(program).run(arguments)
    blob = serialize(program)
    for isa in ISAS:
        (found,) = VpuInterpreter(blob, isa, threads).run(*arguments)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        same = np.ascontiguousarray(found).view(np.uint8) == np.ascontiguousarray(expected).view(
            np.uint8
        )
        assert same.all(), f"{isa}: {np.count_nonzero(~same)} bytes of {same.size} differ"


def test_every_instruction_has_a_class_and_a_strategy() -> None:
    schema = {name for name in vars(fbs.Op) if not name.startswith("_") and name != "NONE"}
    assert schema == set(Instruction.classes) == set(STRATEGIES)


@pytest.mark.parametrize("name", sorted(Instruction.classes))
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_matches_its_reference(name: str, data: Any) -> None:
    check(data.draw(STRATEGIES[name]), data.draw(st.integers(1, 4)))


@pytest.mark.parametrize("groups", [2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_groups_that_are_too_wide_to_be_computed_together(groups: int, stride: int) -> None:
    """Where they are as many as the stride, the rows of a group that a stride steps over have as
    many channels as the image."""
    rng = np.random.default_rng(groups)
    channels = groups * 40
    constants = [
        rng.integers(-127, 128, (channels, 5, 5, 1), np.int8),
        rng.integers(-1000, 1000, channels, np.int32),
        (rng.random(channels) / 500).astype(np.float32),
    ]
    x = Value(rng.integers(-128, 128, (1, 9, 9, groups), np.int8), zero_point=3)
    conv = make("Conv2d", stride, stride, 2, 2, 1, 1, groups, 0.0, -128, 127)
    operands = [x, *(Value(data, constant=True) for data in constants)]
    size = 8 // stride + 1
    check(Case(conv, operands, (1, size, size, channels)), threads=2)


@pytest.mark.parametrize(
    "name", [n for n, c in Instruction.classes.items() if c.overwrites is not None]
)
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_output_may_take_the_place_of_what_it_overwrites(name: str, data: Any) -> None:
    overwrites = Instruction.classes[name].overwrites
    assert overwrites is not None
    has_operand = STRATEGIES[name].filter(lambda case: len(case.inputs) > overwrites)
    case = data.draw(has_operand)
    program = case.program()
    (step,) = program.steps
    identity = append_constant(program, np.arange(-128, 128, dtype=np.int8))
    old = append_intermediate(program, step.inputs[overwrites])
    new = append_intermediate(program, step.output)
    inputs = list(step.inputs)
    inputs[overwrites] = old
    program.steps = [
        Step(Lookup(), (step.inputs[overwrites], identity), old),
        Step(step.instruction, tuple(inputs), new),
        Step(Lookup(), (new, identity), step.output),
    ]
    plan_arena(program)
    assert program.tensors[old].buffer.offset == program.tensors[new].buffer.offset
    assert program.arena_size < 2 * program.tensors[new].buffer.nbytes + 64
    check_program(program, case.arguments(), data.draw(st.integers(1, 4)))


def append_constant(program: VpuProgram, data: NDArray[Any]) -> int:
    buffer = Buffer(Storage.CONSTANT, data.nbytes, data=data)
    program.tensors.append(Tensor(buffer, DType.INT8, data.shape, 1.0, 0))
    return len(program.tensors) - 1


def append_intermediate(program: VpuProgram, like: int) -> int:
    tensor = program.tensors[like]
    program.tensors.append(replace(tensor, buffer=Buffer(Storage.ARENA, tensor.buffer.nbytes)))
    return len(program.tensors) - 1
