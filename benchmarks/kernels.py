"""Every layer shape of whole models by itself: GMAC/s, and percent of what the CPU can multiply.

The peak is measured in the same process: the instruction set's multiply instruction on registers
alone, by as many threads at once. Layers run on operands in the caches; the last column is what the
same layer takes in its model. VPU_ISA chooses the instruction set.

    python -m benchmarks.kernels --json kernels.json --plot kernels.svg
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from . import command, machine
from .command import out
from .layers import NET, Net, load_net, measure
from .peak import peak_gmacs
from .plots import COLORS, drawing
from .tables import Grid, distinct, find, of_threads

Results = dict[str, Any]


def main() -> None:
    commands = command.parser(__doc__)
    command.add_models(commands)
    command.add_threads(commands)
    options = command.parse(commands)
    seconds = 0.002 if options.quick else 0.1
    results = run(options.models, options.threads, seconds, options.cache)
    command.show_machine(results)
    for threads in options.threads:
        out.print(table(results, threads).rich())
    command.write_json(options.json, results)
    if options.plot is not None:
        plot(results, options.plot)


def run(models: Sequence[str], threads: Sequence[int], seconds: float, directory: Path) -> Results:
    """Measures each shape for about so long, and each model for ten times that."""
    nets: dict[str, Net] = {}
    with command.progress() as bar:
        task = bar.add_task("compiling", total=len(models))
        for model in models:
            bar.update(task, description=f"compiling {model}")
            nets[model] = load_net(model, directory)
            bar.advance(task)
        bar.remove_task(task)
        blobs = {layer: blob for net in nets.values() for layer, blob in net.blobs.items()}
        task = bar.add_task("measuring", total=len(blobs) * len(threads))
        peaks: dict[str, float | None] = {}
        rows: list[dict[str, Any]] = []
        for count in threads:
            peak = peaks[str(count)] = peak_gmacs(count)
            inside: dict[str, list[float]] = {layer: [] for layer in blobs}
            for net in nets.values():
                whole = measure(net.blob, count, 10 * seconds)
                for layer, time in zip(net.layers, whole.microseconds, strict=True):
                    if layer:
                        inside[layer].append(time)
            for layer, blob in blobs.items():
                bar.update(task, description=f"{layer}, {of_threads(count)}")
                alone = measure(blob, count, seconds)
                gmacs = alone.macs[0] / alone.microseconds[0] / 1e3
                rows.append(
                    {
                        "layer": layer,
                        "threads": count,
                        "models": {name: net.layers.count(layer) for name, net in nets.items()},
                        "macs": alone.macs[0],
                        "microseconds": round(alone.microseconds[0], 3),
                        "microseconds_in_model": round(mean(inside[layer]), 3),
                        "gmacs": round(gmacs, 2),
                        "peak_share": None if peak is None else round(gmacs / peak, 4),
                    }
                )
                bar.advance(task)
    return {
        "benchmark": "kernels",
        "machine": machine.describe(("executorch-vpu", *NET.packages)),
        "peak_gmacs": peaks,
        "results": rows,
    }


def table(results: Results, threads: int) -> Grid:
    """A row per shape."""
    isa, peak = results["machine"]["vpu_isa"], results["peak_gmacs"][str(threads)]
    against = "peak unknown" if peak is None else f"measured peak {peak:,.0f} GMAC/s"
    models = list(results["results"][0]["models"])
    grid = Grid(
        f"{isa}, {of_threads(threads)}, {against}",
        ["layer", *models, "MMAC", "µs", "in model", "GMAC/s", "% of peak"],
        left=1,
    )
    for row in results["results"]:
        if row["threads"] == threads:
            share = row["peak_share"]
            grid.rows.append(
                [
                    row["layer"],
                    *(f"{times}×" if times else "" for times in row["models"].values()),
                    f"{row['macs'] / 1e6:.1f}",
                    f"{row['microseconds']:.1f}",
                    f"{row['microseconds_in_model']:.1f}",
                    f"{row['gmacs']:.0f}",
                    "" if share is None else f"{100 * share:.0f}",
                ]
            )
    return grid


def plot(results: Results, path: Path) -> None:
    """A panel per kind of layer; bars are percent of the peak, or GMAC/s if that is unknown."""
    rows = results["results"]
    threads = distinct(rows, "threads")
    known = results["peak_gmacs"][str(threads[0])] is not None
    kinds: dict[str, list[str]] = {}
    for layer in distinct(rows, "layer"):
        kinds.setdefault(_kind(layer), []).append(layer)
    longest = max(len(layers) for layers in kinds.values())
    with drawing(path, len(kinds), 3.2 * len(kinds), 0.8 + 0.26 * longest) as axes:
        for panel, (kind, layers) in zip(axes, kinds.items(), strict=True):
            for group, count in enumerate(threads):
                found = [find(rows, layer=layer, threads=count) for layer in layers]
                lengths = [100 * row["peak_share"] if known else row["gmacs"] for row in found]
                thickness = 0.8 / len(threads)
                places = [place + group * thickness for place in range(len(layers))]
                label = of_threads(count)
                color = COLORS[group % len(COLORS)]
                bars = panel.barh(places, lengths, thickness, color=color, label=label)
                rates = [f" {row['gmacs']:.0f}" for row in found]
                panel.bar_label(bars, rates, fontsize=7)
            panel.set_title(kind, loc="left")
            panel.set_yticks(range(len(layers)), layers)
            panel.set_ylim(longest, -1)
            panel.set_xlabel("% of peak (GMAC/s)" if known else "GMAC/s")
            if known:
                panel.set_xlim(0, 100)
        axes[0].legend(loc="lower right")


def _kind(layer: str) -> str:
    """The panel of a layer."""
    if "depthwise" in layer:
        return "depthwise"
    kind = layer.partition(" ")[0].partition("/")[0]
    return kind if kind in ("1x1", "3x3") else "others"


if __name__ == "__main__":
    main()
