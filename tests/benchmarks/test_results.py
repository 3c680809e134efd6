"""What becomes of results: tables on a terminal and in Markdown, pictures, JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import command, footprint, kernels, machine, scaling, whole_models
from benchmarks.tables import Grid

from .results import MACHINE, RESULTS

ROOT = Path(__file__).resolve().parents[2]


def shown(grid: Grid, width: int = 200) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(grid.rich())
    return capture.get()


def words(line: str) -> list[str]:
    return line.replace("|", " ").split()


GRIDS = [
    (
        whole_models.table(RESULTS["whole_models"]),
        ["resnet18 1 2.04 3.06 (1.50×)", "resnet18 2 1.25 2.50 (2.00×)"],
    ),
    (
        kernels.table(RESULTS["kernels"], threads=2),
        ["3x3 64→64 @56 3× 115.6 50.0 61.5 2312 35", "linear 512→1000 3× 115.6 50.0 61.5 2312 1"],
    ),
    (
        footprint.table(RESULTS["footprint"]),
        ["resnet18 compile (s) 2.50 10.00 0.250", "resnet18 load (ms) 12.50 50.00 0.250"],
    ),
    (
        scaling.table(RESULTS["scaling"], "channels"),
        ["16 1.8 64.0 32.0 28 56", "512 1849.7 2048.0 1024.0 903 1806"],
    ),
]


@pytest.mark.parametrize(("grid", "lines"), GRIDS, ids=list(RESULTS))
def test_tables_have_the_figures(grid: Grid, lines: list[str]) -> None:
    for text in (shown(grid), grid.markdown()):
        found = [words(line) for line in text.splitlines()]
        for line in lines:
            assert line.split() in found, text


def numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d[\d.,]*", text))


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize(("grid", "lines"), GRIDS, ids=list(RESULTS))
def test_numbers_are_whole_on_a_terminal_of_any_width(
    grid: Grid, lines: list[str], width: int
) -> None:
    text = shown(grid, width)
    assert max(map(len, text.splitlines())) <= width
    figures = numbers(" ".join(cell for row in grid.rows for cell in row))
    assert figures and not figures - numbers(text), text
    assert "…" not in text


def test_a_table_in_a_pipe_has_a_line_for_every_row() -> None:
    code = (
        "from benchmarks.command import out; from tests.benchmarks.test_results import GRIDS\n"
        "for grid, _ in GRIDS: out.print(grid.rich())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-c", code]
    piped = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    found = [words(line) for line in piped.stdout.splitlines()]
    for _, lines in GRIDS:
        assert all(line.split() in found for line in lines), piped.stdout


def test_markdown_aligns_numbers_right() -> None:
    grid = Grid("title", ["name", "number"], left=1, rows=[["a", "1"]])
    assert grid.markdown() == "| name | number |\n| --- | ---: |\n| a | 1 |\n"


def test_kernels_of_a_set_without_a_known_peak() -> None:
    row = {**RESULTS["kernels"]["results"][0], "peak_share": None}
    results = {**RESULTS["kernels"], "peak_gmacs": {"1": None}, "results": [row]}
    grid = kernels.table(results, threads=1)
    assert "peak unknown" in grid.title
    assert grid.rows[0][-1] == ""


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("whole_models", ["resnet18", "OpenVINO", "1 thread", "2 threads", "3.06 ms, 1.5×"]),
        ("kernels", ["3x3 64→64 @56", "others", "2 threads"]),
        ("footprint", ["XNNPACK", "load (ms)", "50.00"]),
        ("scaling", ["channels in and out", "512", "multiply-accumulates", "threads"]),
    ],
)
def test_pictures_have_the_labels_and_are_the_same_each_time(
    name: str, labels: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="drawing needs matplotlib")
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    for path in (first, second):
        import_module(f"benchmarks.{name}").plot(RESULTS[name], path)
    svg = first.read_text(encoding="utf-8")
    for label in labels:
        assert label in svg
    assert svg == second.read_text(encoding="utf-8")


def test_pictures_have_no_background(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="drawing needs matplotlib")
    whole_models.plot(RESULTS["whole_models"], tmp_path / "a.svg")
    assert "fill: #ffffff" not in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_json_has_everything(tmp_path: Path) -> None:
    command.write_json(tmp_path / "a.json", RESULTS["kernels"])
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == RESULTS["kernels"]


def test_machine_is_described() -> None:
    found = machine.describe(["numpy"])
    assert found.keys() == MACHINE.keys()
    text = machine.text(found)
    for part in (found["cpu"], found["packages"]["numpy"], found["vpu_isa"]):
        assert part in text
