"""vpu_runner: what it prints, saves and refuses."""

from __future__ import annotations

import os
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import to_edge

from executorch_vpu.backend.installed import package_file
from executorch_vpu.backend.interpreter import available_isas

from .blobs import HAND_MADE_SHAPE, hand_made, lookup_reference, with_blob

ISAS = [isa.name for isa in available_isas() if isa.available]


@pytest.fixture
def model(pte: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "model.pte"
    path.write_bytes(pte)
    return path


def run(*arguments: object, status: int = 0, **options: Any) -> str:
    """What it prints; on failure, what it says on the standard error. More options for Popen."""
    program = package_file("executorch_vpu", "bin/vpu_runner")
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen([program, *map(str, arguments)], **streams, text=True) as process:
        try:
            printed, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == status, errors
    return errors if status else printed


def refuse(*arguments: object, status: int = 1, **options: Any) -> str:
    """The one line that says why it does not run."""
    words = run(*arguments, status=status, **options)
    assert words.startswith("vpu_runner: ") and words.count("\n") == 1, words
    return words


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
    assert run("-h") == run("--help")
    assert "built against ExecuTorch 1.5.1" in run("--version")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected a model"),
        (("a.pte", "b.pte"), "expected one model, got 'a.pte' and 'b.pte'"),
        (("a.pte", "--colour"), "unknown option '--colour'"),
        (("a.pte", "--repeat"), "--repeat expects a value"),
        (("a.pte", "--repeat", "0"), "--repeat expects a whole number from 1 to 1000000, got '0'"),
        (
            ("a.pte", "--repeat", "-1"),
            "--repeat expects a whole number from 1 to 1000000, got '-1'",
        ),
        (("a.pte", "--repeat=1e9"), "--repeat expects a whole number from 1 to 1000000, got '1e9'"),
        (("a.pte", "--repeat=2", "--repeat=2"), "--repeat is given twice"),
        (("a.pte", "--warmup="), "--warmup expects a whole number from 0 to 1000000, got ''"),
        (("a.pte", "--threads=two"), "--threads expects a whole number from 1"),
        (("a.pte", "--seed=-1"), "--seed expects a whole number from 0"),
        (("a.pte", "--seed=18446744073709551616"), "--seed expects a whole number from 0"),
        (("a.pte", "--profile", "--etdump=x"), "exclude each other"),
        (("a.pte", "--profile=yes"), "--profile expects no value, got 'yes'"),
        (("a.pte", "--method", ""), "--method expects a value, got ''"),
        (("a.pte", "--input", "--seed", "3"), "--input expects a value, got the option '--seed'"),
        (("a.pte", "--inptu", "x"), "unknown option '--inptu', did you mean '--input'?"),
        (("a.pte", "--output", "x"), "unknown option '--output', did you mean '--output-dir'?"),
        (("-x",), "unknown option '-x' ("),
        (("-",), "unknown option '-' ("),
        (("",), "expected a model, got ''"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], words: str) -> None:
    assert words in refuse(*arguments, status=2)


def test_threads_are_bound_by_the_machine(model: Path) -> None:
    most = 8 * len(os.sched_getaffinity(0))
    assert f"{most} threads" in run(model, "--threads", most)
    for count in (most + 1, 40_000, 1_000_000):
        words = refuse(model, "--threads", count, status=2)
        assert f"a whole number from 1 to {most} (8 for each processor), got '{count}'" in words


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
        assert words in refuse(model, "--input", tmp_path / name)
    np.save(tmp_path / "smaller.npy", np.zeros((1, 3, 4, 4), np.float32))
    words = run(model, "--input", tmp_path / "smaller.npy", status=1)
    assert (
        f"{takes} and not dynamic, but '{tmp_path}/smaller.npy' holds float32 [1, 3, 4, 4]" in words
    )
    twice = ("--input", tmp_path / "shape.npy") * 2
    assert "takes 1 inputs, got 2 times --input" in run(model, *twice, status=1)


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 4, 5), }"


def npy(header: str, version: tuple[int, int] = (1, 0), data: bytes = bytes(240)) -> bytes:
    """A .npy file; the header need not be one that NumPy writes."""
    length = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes(version) + length + header.encode("latin-1") + data


@pytest.mark.parametrize(
    "file",
    [
        npy(HEADER),
        npy(HEADER, (2, 0)),
        npy(HEADER, (3, 0)),
        npy(HEADER.replace("'", '"')),
        npy("{'shape':(1,3,4,5),'fortran_order':False,'descr':'<f4'}"),
        npy(HEADER.replace(":", ":" + " " * 3000) + " " * 500),
    ],
    ids=["1.0", "2.0", "3.0", "quotes", "order", "spaces"],
)
def test_every_way_to_write_a_header(model: Path, tmp_path: Path, file: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(file)
    np.testing.assert_array_equal(np.load(path), np.zeros(HAND_MADE_SHAPE))
    y, _ = lookup_reference(np.zeros(HAND_MADE_SHAPE, np.float32))
    assert f"min {y.min():g}  max {y.max():g}" in run(model, "--input", path)


def shaped(shape: str) -> bytes:
    return npy(HEADER.replace("(1, 3, 4, 5)", shape))


def typed(descr: str) -> bytes:
    return npy(HEADER.replace("'<f4'", descr))


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (b"", "does not begin with NumPy's magic string"),
        (b"PK\3\4" + bytes(100), "does not begin with NumPy's magic string"),
        (b"\x93NUMPY\1\0\xff", "ends in its header"),
        (npy(HEADER)[:40], "ends in its header"),
        (npy(HEADER, (0, 0)), "version 0.0, expected 1.0, 2.0 or 3.0"),
        (npy(HEADER, (1, 1)), "version 1.1, expected 1.0, 2.0 or 3.0"),
        (npy(HEADER, (4, 0)), "version 4.0, expected 1.0, 2.0 or 3.0"),
        (npy(HEADER + " " * 30_000), "header has 30065 bytes, expected at most 10000"),
        (b"\x93NUMPY\2\0" + b"\xff" * 4, "header has 4294967295 bytes, expected at most 10000"),
        (npy(""), "has an end where '{' is expected"),
        (npy("{}"), "no 'descr'"),
        (npy(HEADER.replace("'descr'", "'dtype'")), "unknown or second key 'dtype'"),
        (npy(HEADER.replace("'shape'", "'descr'")), "unknown or second key 'descr'"),
        (npy(HEADER + "x"), "goes on with 'x'"),
        (npy(HEADER.replace("False", "True")), "Fortran order"),
        (npy(HEADER.replace("False", "0")), "neither True nor False"),
        (typed("'" + "f" * 9000 + "'"), f"its dtype is '{'f' * 40}...', expected one of <f4 "),
        (typed("'>f4'"), "'>f4', big-endian, expected one of <f4 "),
        (typed("'|O'"), "'|O', objects, expected one of <f4 "),
        (typed("'<f\n\0\xff'"), "its dtype is '<f???'"),
        (typed("[('a', '<f4')]"), "its dtype has fields"),
        (typed("('<f4', (2,))"), "its dtype has fields or a shape"),
        (shaped("(-1, 3, 4, 5)"), "not a tuple of whole numbers: '(-1, 3, 4, 5)"),
        (shaped("(1.0, 3, 4, 5)"), "not a tuple of whole numbers"),
        (shaped("(1 3 4 5)"), "not a tuple of whole numbers"),
        (shaped("(60)"), "not a tuple of whole numbers"),
        (shaped("[60]"), "not a tuple of whole numbers"),
        (shaped("(" + "9" * 5000 + ",)"), "too large"),
        (shaped("(65536, 65536, 65536, 65536)"), "too large"),  # 0 bytes in 64 bits
        (shaped("(" + "1," * 4000 + ")"), "more than 64 dimensions"),
        (shaped("(1, 3, 4, 6)"), "expected 288 after the header, found 240"),
        (npy(HEADER, data=bytes(239)), "expected 240 after the header, found 239"),
        (npy(HEADER, data=bytes(241)), "expected 240 after the header, found 241"),
    ],
)
def test_a_npy_file_that_is_not_read(model: Path, tmp_path: Path, file: bytes, words: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(file)
    assert f"'{path}' is not a .npy file this program reads: it" in (
        said := refuse(model, "--input", path)
    )
    assert words in said


def test_what_is_no_file_is_refused(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    device = "it is a device, expected a file"
    for path, model_words, input_words in [
        ("/dev/zero", device, device),
        (tmp_path, "it is a directory, expected a file", "it is a directory, expected a file"),
        (tmp_path / "pipe", "it is a pipe, expected a file", "nothing is written into this pipe"),
        (tmp_path / "loop", "Too many levels", "Too many levels"),
        (tmp_path / "missing", "No such file", "No such file"),
        (model / "x", "Not a directory", "Not a directory"),
    ]:
        assert f"cannot load '{path}': {model_words}" in refuse(path)
        assert f"cannot read '{path}': {input_words}" in refuse(model, "--input", path)


def test_an_input_from_a_pipe_is_read_as_far_as_needed(model: Path, tmp_path: Path) -> None:
    y, _ = lookup_reference(image())
    for data, words in [
        (image().tobytes(), f"min {y.min():g}  max {y.max():g}"),
        (b"1234", "has 4\n"),
        (bytes(1 << 16), "has more\n"),
    ]:
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        with open(reading, "rb") as pipe:
            status = 0 if "min" in words else 1
            assert words in run(model, "--input=/dev/stdin", stdin=pipe, status=status)
    endless = "import sys\nwhile True: sys.stdout.buffer.write(bytes(1 << 16))"
    with subprocess.Popen(
        [sys.executable, "-c", endless], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        words = refuse(model, "--input=/dev/stdin", stdin=process.stdout)
        process.kill()
    assert "input 0 is float32 [1, 3, 4, 5] of 240 bytes, but '/dev/stdin' has more" in words


@pytest.mark.parametrize("arguments", [(), ("--profile",), ("--help",), ("--version",)])
def test_a_standard_output_that_takes_nothing_is_an_error(
    model: Path, arguments: tuple[str, ...]
) -> None:
    with open("/dev/full", "w") as full:
        words = refuse(model, *arguments, stdout=full)
    assert "cannot write to the standard output: No space left on device" in words
    words = refuse(model, *arguments, preexec_fn=lambda: os.close(1))
    assert "the standard output is closed" in words
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as nobody_reads:
        words = refuse(model, *arguments, stdout=nobody_reads)
    assert "cannot write to the standard output: Broken pipe" in words


def test_results_are_not_written_into_a_closed_stream(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", image())
    run(
        *(model, "--input", tmp_path / "x.npy", "--output-dir", tmp_path),
        preexec_fn=lambda: (os.close(0), os.close(2)),
    )
    np.testing.assert_array_equal(np.load(tmp_path / "output_0.npy"), lookup_reference(image())[0])


def test_a_full_disk_leaves_no_part_of_a_file(model: Path, tmp_path: Path) -> None:
    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    for option, path in [
        ("--output-dir", tmp_path / "output_0.npy"),
        ("--etdump", tmp_path / "dump"),
    ]:
        value = tmp_path if option == "--output-dir" else path
        words = refuse(model, option, value, preexec_fn=no_room)
        assert f"cannot write '{path}': File too large" in words
        assert os.listdir(tmp_path) == ["model.pte"]
        path.write_bytes(b"before")
        refuse(model, option, value, preexec_fn=no_room)
        assert path.read_bytes() == b"before"
        assert sorted(os.listdir(tmp_path)) == sorted(["model.pte", path.name])
        path.unlink()


def test_devices_and_links_are_written_through(model: Path, tmp_path: Path) -> None:
    assert "cannot write '/dev/full': No space" in refuse(model, "--etdump", "/dev/full")
    assert Path("/dev/full").is_char_device()
    (tmp_path / "output_0.npy").symlink_to("/dev/full")
    words = refuse(model, "--output-dir", tmp_path)
    assert f"cannot write '{tmp_path}/output_0.npy': No space left on device" in words
    assert (tmp_path / "output_0.npy").is_symlink()

    (tmp_path / "elsewhere").write_bytes(b"before")
    (tmp_path / "elsewhere").chmod(0o640)
    (tmp_path / "output_0.npy").unlink()
    (tmp_path / "output_0.npy").symlink_to("elsewhere")
    run(model, "--output-dir", tmp_path)
    assert (tmp_path / "output_0.npy").is_symlink()
    assert (tmp_path / "elsewhere").read_bytes()[:6] == b"\x93NUMPY"
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o640


def test_places_that_cannot_be_written_are_refused_before_running(
    model: Path, tmp_path: Path
) -> None:
    file, directory = tmp_path / "file", tmp_path / "directory"
    file.touch()
    (directory / "output_1.npy").mkdir(parents=True)
    for option, path, words in [
        ("--output-dir", file, f"cannot make the directory '{file}' of --output-dir: Not a direct"),
        ("--output-dir", file / "x", "of --output-dir: Not a directory"),
        ("--output-dir", directory, f"cannot write '{directory}/output_1.npy': it is a directory"),
        ("--etdump", directory, f"--etdump cannot write '{directory}': it is a directory"),
        ("--etdump", tmp_path / "no" / "dump", f"there is no directory '{tmp_path}/no'"),
    ]:
        assert words in refuse(model, option, path)
    assert os.listdir(directory) == ["output_1.npy"]


def test_results_never_take_the_place_of_what_is_read(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "output_0.npy", image())
    (tmp_path / "link").symlink_to(tmp_path)
    before = {path: path.read_bytes() for path in (model, tmp_path / "output_0.npy")}
    given = ("--input", tmp_path / "output_0.npy")
    for place in (tmp_path, tmp_path / "link"):
        words = refuse(model, *given, "--output-dir", place)
        assert f"would write '{place}/output_0.npy' over the input '{tmp_path}/output_0" in words
    words = refuse(model, *given, "--etdump", tmp_path / "link" / "model.pte")
    assert f"over the model '{model}'" in words
    log = tmp_path / "log"
    with log.open("w") as stream:
        words = refuse(model, "--etdump", log, stdout=stream)
        assert f"would write '{log}' over the standard output" in words
        run(model, "--etdump", log, status=1, stderr=stream)
    assert f"would write '{log}' over the standard error" in log.read_text()
    new = tmp_path / "new"
    words = refuse(model, "--etdump", new / "output_1.npy", "--output-dir", new)
    assert "--etdump would write" in words and "over an output" in words
    assert before == {path: path.read_bytes() for path in before}


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def without_vpu(path: Path, x: torch.Tensor, **export: Any) -> Path:
    """A program that adds its input to itself, on the CPU."""
    to_edge(torch.export.export(Twice(), (x,), **export)).to_executorch().save(str(path))
    return path


def test_a_program_that_no_memory_holds_is_refused(tmp_path: Path) -> None:
    sizes = ({0: torch.export.Dim("n", max=1 << 30)},)
    huge = without_vpu(tmp_path / "huge.pte", torch.zeros(4, 1024), dynamic_shapes=sizes)
    words = refuse(huge)
    assert re.search(r"method 'forward' needs \d{13,} bytes of memory or more, this machine", words)


def test_sizes_of_a_dynamic_input(tmp_path: Path) -> None:
    sizes = ({0: torch.export.Dim("n", max=6)},)
    program = without_vpu(tmp_path / "dynamic.pte", torch.zeros(4), dynamic_shapes=sizes)
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.float32))
    run(program, "--input", tmp_path / "x.npy", "--output-dir", tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "output_0.npy"), [0, 2, 4])
    np.save(tmp_path / "x.npy", np.arange(7, dtype=np.float32))
    words = refuse(program, "--input", tmp_path / "x.npy")
    assert f"input 0 is float32 [6], but '{tmp_path}/x.npy' holds float32 [7]" in words


def test_whole_numbers_are_printed_with_all_digits(tmp_path: Path) -> None:
    program = without_vpu(tmp_path / "whole.pte", torch.zeros(2, dtype=torch.int64))
    np.save(tmp_path / "x.npy", np.array([-123_456_789, 617_283_945_000]))
    printed = run(program, "--input", tmp_path / "x.npy")
    assert "min -246913578  max 1234567890000 " in printed
    assert "top 2: [1] 1234567890000, [0] -246913578" in printed


def test_the_summary_of_values_that_are_no_numbers(tmp_path: Path) -> None:
    program = without_vpu(tmp_path / "nan.pte", torch.zeros(40))
    x = np.arange(40, dtype=np.float32)
    x[::2] = np.nan
    np.save(tmp_path / "x.npy", x)
    printed = run(program, "--input", tmp_path / "x.npy")
    assert re.search(r"min 2  max 78  mean -?nan", printed)
    assert "top 5: [39] 78, [37] 74, [35] 70, [33] 66, [31] 62\n" in printed
    np.save(tmp_path / "x.npy", np.full(40, np.nan, np.float32))
    assert re.search(r"min -?nan  max -?nan", run(program, "--input", tmp_path / "x.npy"))


def test_an_unknown_instruction_set_is_refused_without_a_vpu_program_too(tmp_path: Path) -> None:
    program = without_vpu(tmp_path / "cpu.pte", torch.zeros(4))
    assert "instruction set 'x' cannot be used" in refuse(program, "--isa", "x")


def test_what_cannot_be_loaded(model: Path, pte: bytes, tmp_path: Path) -> None:
    assert "has no method 'backward', only: forward" in run(model, "--method=backward", status=1)
    assert "instruction set 'x' cannot be used" in run(model, "--isa", "x", status=1)
    words = refuse(tmp_path / "missing.pte")
    assert f"cannot load '{tmp_path}/missing.pte': No such file or directory" in words
    for contents in (b"", b"not a program" * 100, pte[:-300]):
        (tmp_path / "bad.pte").write_bytes(contents)
        words = run(tmp_path / "bad.pte", status=1)
        assert f"'{tmp_path}/bad.pte'" in words.splitlines()[-1]
    damaged = bytearray(hand_made())
    damaged[-1] ^= 1
    model.write_bytes(with_blob(pte, bytes(damaged)))
    words = run(model, status=1)
    assert "VpuBackend: the VPU program is damaged: its checksum" in words
    assert "cannot load method 'forward'" in words
