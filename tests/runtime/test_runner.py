"""vpu_runner: what it prints, saves and refuses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from executorch_vpu.backend.installed import package_file
from executorch_vpu.backend.interpreter import available_isas

from .blobs import HAND_MADE_SHAPE, hand_made, lookup_reference, with_blob

ISAS = [isa.name for isa in available_isas() if isa.available]


@pytest.fixture
def model(pte: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "model.pte"
    path.write_bytes(pte)
    return path


def run(*arguments: object, status: int = 0) -> str:
    """What it prints; on failure, what it says on the standard error."""
    program = package_file("executorch_vpu", "bin/vpu_runner")
    result = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert result.returncode == status, result.stderr
    return result.stderr if status else result.stdout


def image() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 40, HAND_MADE_SHAPE).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("isa", ISAS)
def test_npy_in_npy_out(model: Path, tmp_path: Path, threads: int, isa: str) -> None:
    np.save(tmp_path / "x.npy", image())
    out = tmp_path / "new" / "directory"
    run(
        *(model, "--input", tmp_path / "x.npy", "--output-dir", out),
        *(f"--threads={threads}", "--isa", isa),
    )
    expected, codes = lookup_reference(image())
    np.testing.assert_array_equal(np.load(out / "output_0.npy"), expected)
    np.testing.assert_array_equal(np.load(out / "output_1.npy"), codes)  # stored channels-last
    assert np.load(out / "output_1.npy").dtype == np.int8


def test_raw_input_and_summary(model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.raw").write_bytes(image().tobytes())
    printed = run(model, "--input", tmp_path / "x.raw", "--repeat", 3, "--warmup", 1)
    y, _ = lookup_reference(image())
    assert f"output 0: float32 [1, 3, 4, 5]  min {y.min():g}  max {y.max():g}" in printed
    assert re.search(r"time: min .* ms  median .* ms  mean .* ms  over 3 runs", printed)


def test_random_inputs_depend_on_the_seed(model: Path) -> None:
    def outputs(seed: int) -> list[str]:
        lines = run(model, "--seed", seed).splitlines()
        return [line for line in lines if line.startswith("output")]

    assert outputs(1) == outputs(1) != outputs(2)


def test_profile(model: Path) -> None:
    printed = run(model, "--profile", "--repeat", 4, "--warmup", 2)
    assert "per run over 4 runs" in printed
    for op in ("Quantize", "Lookup", "Dequantize", "Transpose"):
        assert re.search(rf"^  {op} +{op.lower()} +1 ", printed, re.MULTILINE), printed
    assert re.search(r"all VPU instructions +4 ", printed)
    assert "100.0%" in printed


def test_etdump(model: Path, tmp_path: Path) -> None:
    run(model, "--etdump", tmp_path / "dump")
    assert b"ED00" in (tmp_path / "dump").read_bytes()[:16]


def test_help_and_version() -> None:
    assert "--output-dir" in run("--help")
    assert "built against ExecuTorch 1.5.1" in run("--version")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected a model"),
        (("a.pte", "b.pte"), "expected one model, got 'a.pte' and 'b.pte'"),
        (("a.pte", "--colour"), "unknown option '--colour'"),
        (("a.pte", "--repeat"), "--repeat expects a value"),
        (("a.pte", "--repeat", "0"), "--repeat expects a whole number from 1 to 1000000, got '0'"),
        (("a.pte", "--threads=two"), "--threads expects a whole number from 1"),
        (("a.pte", "--seed=-1"), "--seed expects a whole number from 0"),
        (("a.pte", "--profile", "--etdump=x"), "exclude each other"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], words: str) -> None:
    assert words in run(*arguments, status=2)


def test_wrong_inputs(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "shape.npy", np.zeros((1, 3, 4, 6), np.float32))
    np.save(tmp_path / "dtype.npy", np.zeros(HAND_MADE_SHAPE, np.int8))
    np.save(tmp_path / "complex.npy", np.zeros(HAND_MADE_SHAPE, np.complex64))
    np.save(tmp_path / "fortran.npy", np.asfortranarray(image()))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "dtype.npy").read_bytes()[:-1])
    (tmp_path / "short.raw").write_bytes(b"1234")
    takes = "input 0 is float32 [1, 3, 4, 5]"
    for name, words in [
        ("shape.npy", f"{takes}, but '{tmp_path}/shape.npy' holds float32 [1, 3, 4, 6]"),
        ("dtype.npy", f"{takes}, but '{tmp_path}/dtype.npy' holds int8 [1, 3, 4, 5]"),
        ("complex.npy", "its dtype is '<c8'"),
        ("fortran.npy", "Fortran order"),
        ("cut.npy", "as many bytes"),
        ("short.raw", f"{takes} of 240 bytes, but"),
        ("missing.npy", "cannot read"),
    ]:
        assert words in run(model, "--input", tmp_path / name, status=1)
    twice = ("--input", tmp_path / "shape.npy") * 2
    assert "takes 1 inputs, got 2 times --input" in run(model, *twice, status=1)


def test_what_cannot_be_loaded(model: Path, pte: bytes, tmp_path: Path) -> None:
    assert "has no method 'backward', only: forward" in run(model, "--method=backward", status=1)
    assert "instruction set 'x' cannot be used" in run(model, "--isa", "x", status=1)
    assert "cannot load" in run(tmp_path / "missing.pte", status=1)
    damaged = bytearray(hand_made())
    damaged[-1] ^= 1
    model.write_bytes(with_blob(pte, bytes(damaged)))
    words = run(model, status=1)
    assert "VpuBackend: the VPU program is damaged: its checksum" in words
    assert "cannot load method 'forward'" in words
