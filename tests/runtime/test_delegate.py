"""VpuBackend inside ExecuTorch's runtime, on a program written by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.devtools import Inspector
from executorch.exir import ExecutorchBackendConfig
from executorch.runtime import Runtime

import executorch_vpu.runtime  # noqa: F401

from .blobs import HAND_MADE_SHAPE, blob, hand_made, hand_made_program, lookup_reference, with_blob
from .conftest import MakePte, Model
from .test_concurrency import together


class Loaded:
    """A method with its program, whose bytes must outlive it."""

    def __init__(self, pte: bytes) -> None:
        self.program = Runtime.get().load_program(pte)
        self.method = self.program.load_method("forward")

    def execute(self, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        assert self.method is not None
        return self.method.execute(inputs)


def image(seed: int = 0) -> torch.Tensor:
    x = np.random.default_rng(seed).normal(0, 40, HAND_MADE_SHAPE).astype(np.float32)
    return torch.from_numpy(x)


def test_registered() -> None:
    assert Runtime.get().backend_registry.is_available("VpuBackend")


def test_runs(pte: bytes) -> None:
    method = Loaded(pte)
    for seed in range(3):
        y, codes = method.execute([image(seed)])
        expected, expected_codes = lookup_reference(image(seed).numpy())
        np.testing.assert_array_equal(y.numpy(), expected)
        np.testing.assert_array_equal(codes.numpy(), expected_codes)


def test_two_programs_at_once(pte: bytes) -> None:
    first, second = Loaded(pte), Loaded(pte)
    y = first.execute([image(0)])[0].clone()
    z = second.execute([image(1)])[0].clone()
    np.testing.assert_array_equal(y.numpy(), lookup_reference(image(0).numpy())[0])
    np.testing.assert_array_equal(z.numpy(), lookup_reference(image(1).numpy())[0])


@pytest.mark.parametrize(
    "x",
    [
        image().to(torch.float64),
        image().reshape(1, 3, 5, 4),
        image().reshape(3, 4, 5),
    ],
    ids=["float64", "sizes", "rank"],
)
def test_another_input_is_refused(pte: bytes, x: torch.Tensor) -> None:
    method = Loaded(pte)
    with pytest.raises(RuntimeError):
        method.execute([x])
    y, _ = method.execute([image()])  # it goes on working
    np.testing.assert_array_equal(y.numpy(), lookup_reference(image().numpy())[0])


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("sizes", [3, 1, 4, 5], "input 0 must have sizes [3, 1, 4, 5], got [1, 3, 4, 5]"),
        ("dimOrder", [0, 2, 3, 1], "input 0 must have dim order [0, 2, 3, 1]"),
    ],
)
def test_a_program_that_expects_something_else(
    pte: bytes,
    field: str,
    value: list[int],
    words: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The runtime passes [1, 3, 4, 5], contiguous, and the blob is for something else."""
    program, constants = hand_made_program()
    (argument,) = program.inputs
    setattr(argument, field, value)
    shape = [argument.sizes[d] for d in argument.dimOrder]
    program.tensors[0].shape = shape
    program.instructions[0].op.perm = [0, 1, 2, 3]
    for index in (1, 3, 4, 5):
        program.tensors[index].shape = shape
    program.instructions[2].op.perm = [0, 1, 2, 3]
    for output in program.outputs:
        output.sizes, output.dimOrder = shape, [0, 1, 2, 3]
    method = Loaded(with_blob(pte, blob(program, constants)))
    with pytest.raises(RuntimeError):
        method.execute([image()])
    assert words in capfd.readouterr().err


def test_a_damaged_blob_is_refused_in_words(pte: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    data = bytearray(hand_made())
    data[-1] ^= 1
    with pytest.raises(RuntimeError):
        Loaded(with_blob(pte, bytes(data)))
    assert "the VPU program is damaged: its checksum" in capfd.readouterr().err


def test_another_version_is_refused_in_words(pte: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    data = bytearray(hand_made())
    data[4] = 2
    with pytest.raises(RuntimeError):
        Loaded(with_blob(pte, bytes(data)))
    assert "format version 2, this library reads version 1" in capfd.readouterr().err


def test_a_blob_that_is_not_aligned(make_pte: MakePte) -> None:
    program, constants = hand_made_program()
    odd = blob(program, constants + b"0")
    config = ExecutorchBackendConfig(segment_alignment=1)
    pte = make_pte(hand_made(), Model(), image(), others={"before": odd}, config=config)
    assert pte.index(hand_made()) % 16 != 0
    y, codes = Loaded(pte).execute([image()])
    expected, expected_codes = lookup_reference(image().numpy())
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(codes.numpy(), expected_codes)


def test_a_limit_from_the_environment(
    pte: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VPU_MEMORY_LIMIT", "1000")
    with pytest.raises(RuntimeError):
        Loaded(pte)
    assert "its memory limit of 1000 bytes" in capfd.readouterr().err


def test_events_and_intermediate_outputs(pte: bytes, tmp_path: Path) -> None:
    program = Runtime.get().load_program(pte, enable_etdump=True, debug_buffer_size=1 << 16)
    method = program.load_method("forward")
    assert method is not None
    method.execute([image()])
    etdump, debug = tmp_path / "etdump", tmp_path / "debug"
    program.write_etdump_result_to_file(str(etdump), str(debug))
    inspector = Inspector(etdump_path=str(etdump), debug_buffer_path=str(debug))
    events = {
        int(event.name): event
        for block in inspector.event_blocks
        for event in block.events
        if event.is_delegated_op
    }
    assert sorted(events) == [0, 1, 2, 3]
    _, codes = lookup_reference(image().numpy())
    (logged,) = events[1].debug_data
    np.testing.assert_array_equal(logged.numpy(), codes.transpose(0, 2, 3, 1))
    assert all(time >= 0 for event in events.values() for time in event.perf_data.raw)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_another_executorch_is_refused_in_words() -> None:
    code = """
import executorch_vpu.build_info as info
info.EXECUTORCH_VERSION = "9.9.9"
import executorch_vpu.runtime
"""
    result = run_python(code)
    assert result.returncode != 0
    assert "built against ExecuTorch 9.9.9, found 1.5.1: reinstall" in result.stderr


def test_importing_needs_no_torch_for_the_interpreter() -> None:
    result = run_python(
        "import executorch_vpu.backend.interpreter, sys; assert 'torch' not in sys.modules"
    )
    assert result.returncode == 0, result.stderr


def test_methods_in_two_threads(make_pte: MakePte) -> None:
    """Each its own; what is one and the same in both are the packed constants and the pool."""
    pte = make_pte(hand_made(), Model(), image(), ["first", "second"])
    program = Runtime.get().load_program(pte)
    methods = [program.load_method(name) for name in ("first", "second")]

    def execute(seed: int) -> None:
        method = methods[seed]
        assert method is not None
        expected = lookup_reference(image(seed).numpy())
        for _ in range(200):
            y, codes = method.execute([image(seed)])
            np.testing.assert_array_equal(y.numpy(), expected[0])
            np.testing.assert_array_equal(codes.numpy(), expected[1])

    together(lambda: execute(0), lambda: execute(1))
