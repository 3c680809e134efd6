"""Whole models, int8, batch 1: the VPU against XNNPACK, ONNX Runtime and OpenVINO.

All are measured in one run, in blocks that alternate, float32 in and float32 out: conversions at
the boundary count. peers.py says how each is set up. VPU_ISA chooses the VPU's instruction set.

    python -m benchmarks.whole_models --json results.json --plot results.svg
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import command, machine
from .artifacts import EXPECTED
from .command import out
from .measure import Blocks, alternate, ratio, summarize_times
from .models import random_images
from .peers import PEERS, VPU
from .plots import COLORS, drawing
from .process import in_process
from .tables import Grid, distinct, find, of_threads

Results = dict[str, Any]
SUBJECTS = {VPU.name: VPU, **PEERS}


def main() -> None:
    blocks = Blocks()
    commands = command.parser(__doc__)
    command.add_models(commands)
    command.add_threads(commands)
    commands.add_argument(
        "--peers",
        nargs="*",
        choices=PEERS,
        default=list(PEERS),
        metavar="PEER",
        help=f"of {', '.join(PEERS)} (default all)",
    )
    for name, what in (
        ("rounds", "blocks of each runtime"),
        ("warmup", "runs at the beginning of a block, which do not count"),
        ("runs", "runs of a block that do"),
    ):
        default = getattr(blocks, name)
        commands.add_argument(
            f"--{name}",
            type=command.positive,
            default=default,
            metavar="N",
            help=f"{what} (default {default})",
        )
    options = command.parse(commands)

    if options.quick:
        blocks = Blocks(rounds=2, warmup=1, runs=2)
    else:
        blocks = Blocks(options.rounds, options.warmup, options.runs)
    results = compare(options.models, options.peers, options.threads, blocks, options.cache)
    command.show_machine(results)
    for name, reason in results["skipped"].items():
        out.print(f"{SUBJECTS[name].title} was not measured: {reason}")
    out.print(table(results).rich())
    command.write_json(options.json, results)
    if options.plot is not None:
        plot(results, options.plot)


def compare(
    models: Sequence[str],
    peers: Sequence[str],
    threads: Sequence[int],
    blocks: Blocks,
    directory: Path,
) -> Results:
    """Compiles what is not there yet, and measures every model with every number of threads."""
    skipped = {name: reason for name in peers if (reason := PEERS[name].missing()) is not None}
    subjects = [VPU, *(PEERS[name] for name in peers if name not in skipped)]
    rows: list[dict[str, Any]] = []
    with command.progress() as bar:
        task = bar.add_task("compiling", total=len(models) * len(subjects))
        paths, expected = {}, {}
        for model in models:
            expected[model] = EXPECTED.get(model, directory)
            for subject in subjects:
                bar.update(task, description=f"compiling {model} for {subject.title}")
                paths[model, subject.name] = subject.artifact.get(model, directory)
                bar.advance(task)
        bar.remove_task(task)
        task = bar.add_task(
            "measuring", total=len(models) * len(threads) * len(subjects) * blocks.rounds
        )
        for count in threads:
            for model in models:
                bar.update(task, description=f"{model}, {of_threads(count)}")
                mine = {subject.name: paths[model, subject.name] for subject in subjects}
                rows += in_process(
                    measure,
                    model,
                    count,
                    mine,
                    expected[model],
                    blocks,
                    advance=partial(bar.advance, task),
                )
    return {
        "benchmark": "whole_models",
        "machine": machine.describe(p for subject in subjects for p in subject.packages),
        "blocks": asdict(blocks),
        "skipped": skipped,
        "results": rows,
    }


def measure(
    model: str,
    threads: int,
    paths: dict[str, Path],
    expected: Path,
    blocks: Blocks,
    *,
    advance: Callable[[], None],
) -> list[dict[str, Any]]:
    """One model's results, the VPU's first. For a process of its own: thread pools stay."""
    image = random_images(1).numpy()
    runs = {name: SUBJECTS[name].load(path, threads, image) for name, path in paths.items()}
    answers = {name: np.array(run()) for name, run in runs.items()}
    gc.disable()
    times = alternate(runs, blocks, advance)
    return [
        {
            "model": model,
            "threads": threads,
            "runtime": name,
            "milliseconds": summarize_times(times[name]).json(),
            "ratio": ratio(times[name], times[VPU.name]).json(),
            "sqnr_db": round(_sqnr_db(np.load(expected), answers[name]), 1),
        }
        for name in runs
    ]


def _sqnr_db(expected: NDArray[np.float32], found: NDArray[np.float32]) -> float:
    """How near a quantized model's answer is to the float model's: signal to noise ratio."""
    assert found.shape == expected.shape
    signal, noise = float((expected**2).sum()), float(((expected - found) ** 2).sum())
    return 10 * log10(signal / max(noise, 1e-30 * signal))


def table(results: Results) -> Grid:
    """A row per model and number of threads: median milliseconds, and ratios to the VPU's."""
    rows = results["results"]
    runtimes = distinct(rows, "runtime")
    title = f"median ms (× the VPU's), VPU on {results['machine']['vpu_isa']}"
    grid = Grid(title, ["model", "threads", *(SUBJECTS[name].title for name in runtimes)], left=1)
    for threads in distinct(rows, "threads"):
        for model in distinct(rows, "model"):
            cells = []
            for runtime in runtimes:
                row = find(rows, model=model, threads=threads, runtime=runtime)
                time = f"{row['milliseconds']['median']:.2f}"
                times = f" ({row['ratio']['median']:.2f}×)"
                cells.append(time + times * (runtime != VPU.name))
            grid.rows.append([model, str(threads), *cells])
    return grid


def plot(results: Results, path: Path) -> None:
    """A panel per model, a group of bars per number of threads."""
    rows = results["results"]
    models, runtimes, threads = (distinct(rows, key) for key in ("model", "runtime", "threads"))
    height = 0.6 + 0.22 * (len(runtimes) + 1) * len(threads)
    with drawing(path, len(models), 3.0 * len(models) + 1, height) as axes:
        for panel, model in zip(axes, models, strict=True):
            labels: dict[float, str] = {}
            for group, count in enumerate(threads):
                top = group * (len(runtimes) + 1.4)
                labels[top] = of_threads(count)
                for place, runtime in enumerate(runtimes, start=1):
                    row = find(rows, model=model, threads=count, runtime=runtime)
                    time, times = row["milliseconds"]["median"], row["ratio"]["median"]
                    color = COLORS[(place - 1) % len(COLORS)]
                    panel.barh(top + place, time, 0.8, color=color)
                    note = f" {time:.2f} ms" + f", {times:.1f}×" * (runtime != VPU.name)
                    panel.text(time, top + place, note, va="center", fontsize=8)
                    labels[top + place] = SUBJECTS[runtime].title
            panel.set_title(model, loc="left")
            panel.set_yticks(list(labels), list(labels.values()) if panel is axes[0] else [])
            panel.tick_params(length=0, labelbottom=False)
            panel.spines["bottom"].set_visible(False)
            panel.margins(x=0.5)
            panel.set_ylim(max(labels) + 0.6, -0.6)


if __name__ == "__main__":
    main()
