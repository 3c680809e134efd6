"""The commands: their errors, what they do without a peer, and a short run of each."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from benchmarks import command, machine, peers
from benchmarks.process import ChildError, in_process

COMMANDS = ("whole_models", "kernels", "footprint", "scaling", "growth")


def run(name: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    import_module(f"benchmarks.{name}").main()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("whole_models --models vgg", "invalid choice: 'vgg' (choose from"),
        ("whole_models --peers tflite", "invalid choice: 'tflite' (choose from"),
        ("whole_models --rounds 0", "--rounds: '0' is not a whole number of at least 1"),
        ("whole_models --runs two", "--runs: 'two' is not a whole number of at least 1"),
        ("whole_models --threads -1", "--threads"),
        ("kernels --threads 99999", "--threads 99999: this process has"),
        ("kernels --models", "--models: expected at least one argument"),
        ("kernels --json results.txt", "--json: 'results.txt' does not end with .json"),
        ("kernels --plot results.png", "--plot: 'results.png' does not end with .svg"),
        ("scaling --plot nowhere/results.svg", "--plot: 'nowhere' is not a directory"),
        ("scaling --sweeps depth", "invalid choice: 'depth' (choose from"),
        ("growth --ops 0", "--ops: '0' is not a whole number of at least 1"),
        ("growth --plot results.svg", "--plot: there is no drawing of these results"),
        ("footprint --backends gpu", "invalid choice: 'gpu' (choose from"),
        ("footprint --cache /dev/null", "--cache: '/dev/null' is not a directory"),
    ],
)
def test_bad_arguments_are_named(
    line: str, error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        run(*line.split(), monkeypatch=monkeypatch)
    assert exit.value.code == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_an_instruction_set_that_cannot_be_used_is_an_error(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VPU_ISA", "mmx")
    with pytest.raises(SystemExit) as exit:
        run(name, monkeypatch=monkeypatch)
    assert exit.value.code == 2
    assert "VPU_ISA is mmx: there is no such set; available here: scalar" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("scaling --plot a.svg", "--plot needs matplotlib, which is not installed"),
        ("kernels", "the models need torchvision, which is not installed"),
    ],
)
def test_a_package_that_is_missing_is_named(
    line: str, error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        run(*line.split(), monkeypatch=monkeypatch)
    assert f"{error}: {command.INSTALL}" in " ".join(capsys.readouterr().err.split())


def test_a_peer_that_is_not_installed_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(package: str) -> str:
        if package in ("openvino", "onnx"):
            raise PackageNotFoundError
        return "1"

    monkeypatch.setattr(peers, "version", version)
    assert peers.PEERS["openvino"].missing() == (f"openvino, onnx not installed: {command.INSTALL}")
    assert peers.PEERS["xnnpack"].missing() is None


def test_a_failing_process_shows_what_it_printed() -> None:
    with pytest.raises(ChildError, match="exit code 1") as error:
        in_process(int, "seven")
    assert "invalid literal for int() with base 10: 'seven'" in str(error.value)


def test_a_dying_process_is_an_error() -> None:
    with pytest.raises(ChildError, match="exit code 3"):
        in_process(os._exit, 3)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("whole_models --models tiny --threads 1 --peers", {"runtime": "vpu"}),
        ("kernels --models tiny --threads 1", {"layer": "3x3/8 3→16 @28"}),
        ("footprint --models tiny --backends vpu", {"backend": "vpu"}),
        ("scaling --sweeps channels --threads 1", {"channels": 16, "macs": 28**2 * 9 * 16**2}),
        ("growth", {"ops": 10}),
    ],
    ids=COMMANDS,
)
def test_a_short_run(
    line: str, expected: dict[str, Any], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = cache / "results.json"
    options = ["--quick", "--cache", str(cache), "--json", str(file)]
    run(*line.split(), *options, monkeypatch=monkeypatch)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["machine"]["vpu_isa"] == machine.chosen_isa()
    assert any(expected.items() <= row.items() for row in found["results"])
