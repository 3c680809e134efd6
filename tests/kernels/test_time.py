"""What benchmarks ask the library: the time of instructions, and an instruction set's peak."""

from __future__ import annotations

import numpy as np
import pytest

from executorch_vpu.backend.interpreter import (
    VpuError,
    VpuInterpreter,
    VpuValueError,
    available_isas,
    isa_peak,
)
from executorch_vpu.backend.serialize import serialize

from .cases import Case, Value, make

ISAS = [isa.name for isa in available_isas() if isa.available]


@pytest.mark.parametrize("threads", [1, 2])
def test_every_run_of_every_instruction_is_timed(threads: int) -> None:
    image = np.zeros((1, 8, 8, 3), np.float32)
    case = Case(make("Quantize", (0, 1, 2, 3), 1.0), [Value(image)], image.shape)
    interpreter = VpuInterpreter(serialize(case.program()), threads=threads)
    times = interpreter.time(image, runs=3)
    assert times.shape == (3, 1)
    assert (times > 0).all()
    with pytest.raises(VpuValueError, match="takes 1 inputs, got 0"):
        interpreter.time(runs=1)


@pytest.mark.parametrize("isa", ISAS)
def test_a_peak_counts_its_multiplications(isa: str) -> None:
    macs, nanoseconds = isa_peak(isa, iterations=1000)
    assert isa_peak(isa, iterations=3000)[0] == 3 * macs
    assert nanoseconds > 0
    assert macs > 0 or isa == "scalar" or isa.startswith("neon")


def test_there_is_no_peak_of_an_unknown_set() -> None:
    with pytest.raises(VpuError, match="instruction set 'mmx' cannot be used"):
        isa_peak("mmx", iterations=1)
