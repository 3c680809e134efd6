"""`python -m executorch_vpu.report`."""

import json
from pathlib import Path

import pytest
import torch

from executorch_vpu.report import main

from .nets import Fork, export_quantized


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("program") / "fork.pt2")
    torch.export.save(export_quantized(Fork(), Fork.inputs), path)
    return path


def test_prints_and_saves_a_saved_programs_report(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "report.json"
    main([program, "--output", str(output)])
    assert "5 ops on the VPU in 1 subgraph (5), 0 ops on the CPU" in capsys.readouterr().out
    assert json.loads(output.read_text())["summary"]["subgraph_sizes"] == [5]
    main([program, "--min-ops", "6"])
    printed = " ".join(capsys.readouterr().out.split())  # the table may wrap a reason
    assert "0 ops on the VPU, 5 ops on the CPU" in printed
    assert "its subgraph would have 5 ops; min_ops" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--min-ops", "0"], "min_ops is 0"),
        (["--min-ops", "two"], "invalid int value: 'two'"),
        (["--boundary", "int4"], "invalid choice: 'int4'"),
        (["--output", "report.gif"], "must be .txt, .json, .dot, .svg or .png"),
        (["--output", "missing/report.txt"], "missing/report.txt"),
    ],
)
def test_bad_arguments_end_with_a_message(
    program: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        main([program, *arguments])
    assert exit.value.code == 2 and message in capsys.readouterr().err


def test_a_file_that_is_no_program_is_said_to_be_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junk = tmp_path / "junk.pt2"
    junk.write_bytes(b"junk")
    for path in (junk, tmp_path / "nothing.pt2"):
        with pytest.raises(SystemExit):
            main([str(path)])
        assert f"{path} cannot be read as an exported program" in capsys.readouterr().err
