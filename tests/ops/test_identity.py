"""Calls that change nothing, on graphs the quantizer has not cleaned up."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._ops import OpOverload
from torch.export import ExportedProgram

from executorch_vpu import VPU_OPS
from executorch_vpu.backend.numerics import QParams
from executorch_vpu.partitioner.plan import make_plan

from ..support.handmade import Function, Quantized, Stage, exported
from ..support.pipeline import lower_whole, worst_unit_error

TRANSPARENT = [op for op, family in VPU_OPS.items() if family.transparent]


def test_the_table_has_transparent_ops() -> None:
    assert TRANSPARENT


@pytest.mark.parametrize("op", TRANSPARENT, ids=str)
def test_an_op_that_changes_nothing_costs_nothing(op: OpOverload) -> None:
    x, q = torch.randn(2, 3, 5), QParams(0.01, 3)
    stages = [Stage(torch.tanh, q), Stage(_unchanged(op), q), Stage(torch.sigmoid, q)]
    program = torch.export.export(Quantized([q], stages), (x,))
    assert _instructions(program) == ["Quantize", "Lookup", "Lookup", "Dequantize"]
    assert worst_unit_error(program, (x,))[0] == 0


@pytest.mark.parametrize("op", TRANSPARENT, ids=str)
def test_parameters_of_its_own_are_met(op: OpOverload) -> None:
    x, q = torch.randn(2, 3, 5), QParams(0.01, 3)
    stages = [Stage(torch.tanh, q), Stage(_unchanged(op), QParams(0.02, -5))]
    program = torch.export.export(Quantized([q], stages), (x,))
    assert _instructions(program) == ["Quantize", "Lookup", "Lookup", "Dequantize"]
    assert worst_unit_error(program, (x,))[0] == 0


@pytest.mark.parametrize("op", TRANSPARENT, ids=str)
def test_a_chain_goes_on_behind_an_op_that_changes_nothing(op: OpOverload) -> None:
    call, x = _unchanged(op), torch.randn(2, 3, 5)
    program = exported([lambda x: F.relu(call(x + x))], (x,))
    assert _instructions(program) == ["Quantize", "Add", "Dequantize"]
    assert worst_unit_error(program, (x,))[0] <= 1


def test_dropout_that_drops_is_refused() -> None:
    program = exported([lambda x: F.dropout(x, 0.25, training=True)], (torch.ones(3, 5),))
    assert list(make_plan(program).reasons.values()) == [
        "it drops elements at random (train=True, p=0.25)"
    ]


def _instructions(program: ExportedProgram) -> list[str]:
    return [type(step.instruction).__name__ for step in lower_whole(program)[0].steps]


def _unchanged(op: OpOverload) -> Function:
    """A call of `op` with whatever it takes besides its input."""
    names = {argument.name for argument in op._schema.arguments}
    given = {"p": 0.5, "train": False, "dtype": torch.float32, "device": torch.device("cpu")}
    keywords = {name: value for name, value in given.items() if name in names}
    if "other" in names:
        return lambda x: op(x, x, **keywords)
    return lambda x: op(x, **keywords)
