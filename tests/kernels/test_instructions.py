"""Every instruction on every instruction set gives, bit for bit, what its reference says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from executorch_vpu.backend.interpreter import VpuInterpreter, available_isas
from executorch_vpu.backend.program import Instruction
from executorch_vpu.backend.reference import Reference
from executorch_vpu.backend.serialize import serialize
from executorch_vpu.schema import vpu_generated as fbs

from .cases import STRATEGIES, Case

ISAS = [isa.name for isa in available_isas() if isa.available]


def check(case: Case, threads: int) -> None:
    program = case.program()
    arguments = case.arguments()
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
    check(data.draw(STRATEGIES[name]), data.draw(st.integers(1, 3)))
