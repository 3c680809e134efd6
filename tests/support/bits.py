"""Comparing the C++ interpreter with the integer reference, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from numpy.typing import NDArray

from executorch_vpu.backend.interpreter import VpuInterpreter, available_isas
from executorch_vpu.backend.program import VpuProgram
from executorch_vpu.backend.reference import Reference
from executorch_vpu.backend.serialize import serialize

ISAS = [
    pytest.param(isa.name, marks=[] if isa.available else pytest.mark.skip(reason=isa.reason))
    for isa in available_isas()
]
"""Every instruction set the library knows, for `parametrize`; skipped where the CPU lacks it."""

AVAILABLE = [isa.name for isa in available_isas() if isa.available]
THREADS = (1, 2, 3)


def assert_same_bits(
    program: VpuProgram,
    inputs: Sequence[NDArray],
    isas: Sequence[str] = AVAILABLE,
    threads: Sequence[int] = THREADS,
) -> None:
    """Runs the program on every path; every instruction's output must equal the reference's."""
    reference = Reference(program)
    outputs = reference.run(inputs)
    blob = serialize(program)
    for isa in isas:
        for count in threads:
            trace = VpuInterpreter(blob, isa, count).trace(*inputs)
            pairs = zip(program.steps, reference.computed, trace.intermediates, strict=True)
            for step, expected, actual in pairs:
                same = actual.tobytes() == expected.tobytes()
                assert same, f"{isa}, {count} threads: {step} differs"
            for expected, actual in zip(outputs, trace.outputs, strict=True):
                assert actual.tobytes() == expected.tobytes(), f"{isa}, {count} threads"
