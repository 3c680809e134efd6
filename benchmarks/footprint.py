"""Compile time, file size, load time and peak memory: the VPU against XNNPACK.

The two take turns, each time in a process of its own. The shortest time and the lowest peak count:
whatever else runs can only add. VPU_ISA chooses the VPU's instruction set.

    python -m benchmarks.footprint --models resnet50
"""

from __future__ import annotations

import gc
import re
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from . import command, machine
from .artifacts import VPU_PTE, XNNPACK_PTE
from .command import out
from .lowering import BACKENDS, Backend, lower, quantize
from .models import random_images
from .peers import set_threads
from .plots import COLORS, drawing
from .process import in_process
from .tables import Grid, distinct, find

Results = dict[str, Any]

FILES = {"vpu": VPU_PTE, "xnnpack": XNNPACK_PTE}
TITLES = {"vpu": "VPU", "xnnpack": "XNNPACK"}
MEASURES = {  # its name in the results: title, and the unit of a table
    "compile_seconds": ("compile (s)", 1.0),
    "load_seconds": ("load (ms)", 1e-3),
    "peak_bytes": ("peak memory (MB)", 1e6),
    "pte_bytes": (".pte (MB)", 1e6),
}


def main() -> None:
    commands = command.parser(__doc__)
    command.add_models(commands)
    commands.add_argument(
        "--backends",
        nargs="+",
        choices=BACKENDS,
        default=list(BACKENDS),
        metavar="BACKEND",
        help=f"of {', '.join(BACKENDS)} (default all)",
    )
    commands.add_argument(
        "--rounds", type=command.positive, default=3, metavar="N", help="turns (default 3)"
    )
    options = command.parse(commands)
    rounds = 1 if options.quick else options.rounds
    results = run(options.models, options.backends, rounds, options.cache)
    command.show_machine(results)
    out.print(table(results).rich())
    command.write_json(options.json, results)
    if options.plot is not None:
        plot(results, options.plot)


def run(
    models: Sequence[str], backends: Sequence[Backend], rounds: int, directory: Path
) -> Results:
    """Compiles and loads every model with every backend, so many times."""
    rows = []
    with command.progress() as bar:
        task = bar.add_task("", total=len(models) * len(backends) * rounds * 2)
        for model in models:
            turns: dict[Backend, list[dict[str, float]]] = {backend: [] for backend in backends}
            for _ in range(rounds):
                for backend in backends:
                    bar.update(task, description=f"compiling {model} for {TITLES[backend]}")
                    compiled = in_process(compile_model, model, backend)
                    bar.advance(task)
                    bar.update(task, description=f"loading {model} with {TITLES[backend]}")
                    path = FILES[backend].get(model, directory)
                    turns[backend].append({**compiled, **in_process(load_model, path, backend)})
                    bar.advance(task)
            for backend, found in turns.items():
                best = {name: min(turn[name] for turn in found) for name in found[0]}
                rows.append({"model": model, "backend": backend, **best, "turns": found})
    return {
        "benchmark": "footprint",
        "machine": machine.describe(("executorch-vpu", *VPU_PTE.packages)),
        "results": rows,
    }


def compile_model(model: str, backend: Backend) -> dict[str, float]:
    """Times to_edge_transform_and_lower, without quantization and export before it."""
    program = quantize(model, backend)
    start = time.perf_counter()
    edge = lower(program, backend)
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.pte")
        edge.to_executorch().save(str(path))
        return {"compile_seconds": seconds, "pte_bytes": path.stat().st_size}


def load_model(path: Path, backend: Backend) -> dict[str, float]:
    """Loads a method, with what that takes of packing weights, and runs it once on one thread.

    The file is in the page cache before. Memory is the peak of all that, without what the process
    has when ExecuTorch and the backend are ready, but no program is.
    """
    if backend == "vpu":
        import executorch_vpu.runtime  # noqa: F401
    from executorch.runtime import Runtime

    set_threads(1)
    runtime = Runtime.get()
    inputs = [random_images(1)]
    with path.open("rb", buffering=0) as file:
        for _ in iter(partial(file.read, 1 << 16), b""):
            pass
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    start = time.perf_counter()
    program = runtime.load_program(path)
    method = program.load_method("forward")
    seconds = time.perf_counter() - start
    assert method is not None
    method.execute(inputs)
    return {"load_seconds": seconds, "peak_bytes": _status("VmHWM") - before}


def _status(field: str) -> int:
    """A number of bytes from /proc/self/status."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    match = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024


def table(results: Results) -> Grid:
    """A row per model and measure."""
    rows = results["results"]
    backends = distinct(rows, "backend")
    isa = results["machine"]["vpu_isa"]
    titles = [TITLES[backend] for backend in backends]
    grid = Grid(f"VPU on {isa}", ["model", "", *titles, "VPU / XNNPACK"], left=2)
    for model in distinct(rows, "model"):
        for name, (title, unit) in MEASURES.items():
            values = [find(rows, model=model, backend=backend)[name] for backend in backends]
            ratio = f"{values[0] / values[1]:.3f}" if backends == list(BACKENDS) else ""
            grid.rows.append([model, title, *(f"{value / unit:.2f}" for value in values), ratio])
    return grid


def plot(results: Results, path: Path) -> None:
    """A panel per measure, a group of bars per model."""
    rows = results["results"]
    models, backends = distinct(rows, "model"), distinct(rows, "backend")
    thickness = 0.8 / len(backends)
    with drawing(path, len(MEASURES), 2.6 * len(MEASURES), 0.9 + 0.6 * len(models)) as axes:
        for panel, (name, (title, unit)) in zip(axes, MEASURES.items(), strict=True):
            for group, backend in enumerate(backends):
                values = [find(rows, model=model, backend=backend)[name] / unit for model in models]
                places = [place + group * thickness for place in range(len(models))]
                bars = panel.barh(
                    places, values, thickness, color=COLORS[group], label=TITLES[backend]
                )
                panel.bar_label(bars, fmt=" {:.2f}", fontsize=8)
            panel.set_title(title, loc="left")
            panel.set_yticks(range(len(models)), models if panel is axes[0] else [])
            panel.tick_params(length=0, labelbottom=False)
            panel.spines["bottom"].set_visible(False)
            panel.margins(x=0.25)
            panel.invert_yaxis()
        axes[-1].legend(loc="upper right")


if __name__ == "__main__":
    main()
