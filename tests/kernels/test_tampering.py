"""A program that was tampered with is refused, in words, or runs: it never crashes."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from executorch_vpu.backend.interpreter import VpuInterpreter, VpuValueError
from executorch_vpu.backend.program import Argument, DType, Instruction, VpuProgram, Windows
from executorch_vpu.backend.serialize import serialize

from .cases import STRATEGIES, Draw

integers = st.one_of(
    st.integers(-3, 9), st.sampled_from([-(2**31), -300, -128, 127, 256, 2**30, 2**31 - 1])
)
floats = st.sampled_from([0.0, -1.0, 1e30, float("inf"), float("-inf"), float("nan")])


def tampered(draw: Draw, value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, float):
        return draw(floats)
    if isinstance(value, int):
        return draw(integers)
    if isinstance(value, Windows):
        return Windows(
            tampered(draw, value.begin),
            tampered(draw, value.end),
            draw(st.one_of(st.just(value.step), integers)),
        )
    changed = list(value)
    kind = draw(st.sampled_from(["change", "shorten", "lengthen"]))
    if kind == "lengthen":
        changed.append(draw(integers))
    elif changed and kind == "shorten":
        changed.pop()
    elif changed:
        changed[draw(st.integers(0, len(changed) - 1))] = draw(integers)
    return tuple(changed)


def tamper(draw: Draw, program: VpuProgram) -> None:
    step = program.steps[0]
    fields = dataclasses.fields(step.instruction)
    what = draw(st.sampled_from(["shape", "dtype", "operand", "fewer", "more", *fields]))
    if what == "shape":
        _reshape(draw, program)
    elif what == "dtype":
        draw(st.sampled_from(program.tensors)).dtype = draw(st.sampled_from(DType))
    elif what == "operand":
        inputs = list(step.inputs)
        position = draw(st.integers(0, len(inputs) - 1))
        inputs[position] = draw(st.integers(0, len(program.tensors)))
        step.inputs = tuple(inputs)
    elif what == "fewer":
        step.inputs = step.inputs[:-1]
    elif what == "more":
        step.inputs = (*step.inputs, draw(st.integers(0, len(program.tensors) - 1)))
    else:
        value = tampered(draw, getattr(step.instruction, what.name))
        setattr(step.instruction, what.name, value)


def _reshape(draw: Draw, program: VpuProgram) -> None:
    """Another shape for a tensor, and for the argument it is."""
    index = draw(st.integers(0, len(program.tensors) - 1))
    shape = list(program.tensors[index].shape)
    if shape and draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = draw(st.integers(1, 9))
    elif shape and draw(st.booleans()):
        shape.pop(draw(st.integers(0, len(shape) - 1)))
    else:
        shape.insert(draw(st.integers(0, len(shape))), draw(st.integers(1, 3)))
    program.tensors[index].shape = tuple(shape)
    for arguments in (program.inputs, program.outputs):
        for i, argument in enumerate(arguments):
            if argument.tensor == index:
                arguments[i] = Argument(index, tuple(shape), tuple(range(len(shape))))


@pytest.mark.parametrize("name", sorted(Instruction.classes))
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_is_refused_or_runs(name: str, data: Any) -> None:
    program = data.draw(STRATEGIES[name]).program()
    tamper(data.draw, program)
    try:
        blob = serialize(program)
    except (struct.error, TypeError):  # a number that its field does not hold
        assume(False)
    try:
        interpreter = VpuInterpreter(blob, threads=2)
    except VpuValueError as refusal:
        assert len(str(refusal)) > 20
        return
    rng = np.random.default_rng(0)
    interpreter.run(*(rng.integers(-128, 128, a.sizes).astype(a.dtype) for a in interpreter.inputs))
