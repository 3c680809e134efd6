"""A program runs one inference at a time; programs run beside each other."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from executorch_vpu.backend.interpreter import VpuError, VpuInterpreter

from .blobs import blob, lookup_program, lookup_reference

SHAPE = (1, 8, 64, 64)
MOST = 5000  # executions until one is refused; some ten are enough
WORDS = "the program is being executed already"


def images() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.normal(0, 40, SHAPE).astype(np.float32) for _ in range(2)]


def together(*bodies: Callable[[], None]) -> None:
    """Runs each in a thread; what one raises, this does."""
    errors: list[BaseException] = []

    def run(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["run", "trace", "time"])
def test_a_second_execution_is_refused(method: str, threads: int) -> None:
    program = VpuInterpreter(blob(*lookup_program(SHAPE)), threads=threads)
    refusals: list[str] = []

    def execute(x: np.ndarray, expected: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in range(MOST):
            if refusals:
                return
            try:
                if method == "time":
                    program.time(x, runs=2)
                    continue
                found = program.run(x) if method == "run" else program.trace(x).outputs
            except VpuError as error:
                refusals.append(str(error))
                continue
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])

    x, z = images()
    together(
        lambda: execute(x, lookup_reference(x)),
        lambda: execute(z, lookup_reference(z)),
    )
    assert refusals and all(WORDS in words for words in refusals)
    np.testing.assert_array_equal(program.run(x)[0], lookup_reference(x)[0])  # it goes on working


@pytest.mark.parametrize("threads", [1, 2])
def test_programs_do_not_refuse_each_other(threads: int) -> None:
    def execute(x: np.ndarray) -> None:
        program = VpuInterpreter(blob(*lookup_program(SHAPE)), threads=threads)
        expected = lookup_reference(x)[0]
        for _ in range(20):
            np.testing.assert_array_equal(program.run(x)[0], expected)

    x, z = images()
    together(lambda: execute(x), lambda: execute(z))
