"""How one convolution's time grows: with its channels, image and kernel size, and with threads.

Starts from a 3x3 convolution of 128 channels at 28 x 28, and changes one thing at a time. The line
is what the instruction set's multiply instruction would take by itself, measured in the same
process. VPU_ISA chooses the instruction set.

    python -m benchmarks.scaling --json scaling.json --plot scaling.svg
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import command, machine
from .command import out
from .layers import convolution, measure
from .peak import peak_gmacs
from .plots import COLORS, TEXT, drawing
from .tables import Grid, distinct, find, of_threads

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = dict[str, Any]


@dataclass(frozen=True)
class Conv:
    """As many channels out as in, of a square image."""

    channels: int = 128
    size: int = 28
    kernel: int = 3


SWEEPS: dict[str, Sequence[int]] = {  # of one field, the others as they are by default
    "channels": (16, 32, 64, 128, 256, 512),
    "size": (7, 14, 28, 56, 112),
    "kernel": (1, 3, 5, 7),
}
AXES = {
    "channels": "channels in and out",
    "size": "image height and width",
    "kernel": "kernel size",
}


def main() -> None:
    commands = command.parser(__doc__)
    commands.add_argument(
        "--sweeps",
        nargs="+",
        choices=SWEEPS,
        default=list(SWEEPS),
        metavar="SWEEP",
        help=f"of {', '.join(SWEEPS)} (default all)",
    )
    command.add_threads(commands)
    options = command.parse(commands)
    results = run(options.sweeps, options.threads, 0.002 if options.quick else 0.1)
    command.show_machine(results)
    for sweep in options.sweeps:
        out.print(table(results, sweep).rich())
    command.write_json(options.json, results)
    if options.plot is not None:
        plot(results, options.plot)


def run(sweeps: Sequence[str], threads: Sequence[int], seconds: float) -> Results:
    """Measures every convolution of the sweeps for about so long."""
    points = [
        (sweep, value, count) for sweep in sweeps for value in SWEEPS[sweep] for count in threads
    ]
    rows = []
    with command.progress() as bar:
        task = bar.add_task("peak", total=len(points))
        peaks = {str(count): peak_gmacs(count) for count in threads}
        for sweep, value, count in points:
            bar.update(task, description=f"{sweep} {value}, {of_threads(count)}")
            conv = replace(Conv(), **{sweep: value})
            time = measure(convolution(conv.channels, conv.size, conv.kernel), count, seconds)
            rows.append(
                {
                    "sweep": sweep,
                    "threads": count,
                    **asdict(conv),
                    "macs": time.macs[0],
                    "microseconds": round(time.microseconds[0], 3),
                }
            )
            bar.advance(task)
    return {
        "benchmark": "scaling",
        "machine": machine.describe(["executorch-vpu"]),
        "peak_gmacs": peaks,
        "results": rows,
    }


def table(results: Results, sweep: str) -> Grid:
    """A row per size: microseconds and GMAC/s for each number of threads."""
    rows = [row for row in results["results"] if row["sweep"] == sweep]
    threads = distinct(rows, "threads")
    columns = [f"µs, {of_threads(count)}" for count in threads]
    rates = [f"GMAC/s, {count}" for count in threads]
    isa = results["machine"]["vpu_isa"]
    grid = Grid(f"{isa}: {_fixed(sweep)}", [AXES[sweep], "MMAC", *columns, *rates], left=1)
    for value in distinct(rows, sweep):
        found = [find(rows, threads=count, **{sweep: value}) for count in threads]
        grid.rows.append(
            [
                str(value),
                f"{found[0]['macs'] / 1e6:.1f}",
                *(f"{row['microseconds']:.1f}" for row in found),
                *(f"{row['macs'] / row['microseconds'] / 1e3:.0f}" for row in found),
            ]
        )
    return grid


def _fixed(sweep: str) -> str:
    """What a sweep does not change."""
    others = {AXES[name]: value for name, value in asdict(Conv()).items() if name != sweep}
    return ", ".join(f"{name} {value}" for name, value in others.items())


def plot(results: Results, path: Path) -> None:
    """Logarithmic: a panel per sweep, one of all points by multiply-accumulates, one of threads."""
    rows = results["results"]
    sweeps, threads = distinct(rows, "sweep"), distinct(rows, "threads")
    with drawing(path, len(sweeps) + 2, 2.9 * (len(sweeps) + 2), 3.2) as axes:
        for panel, x in zip(axes, [*sweeps, "macs"], strict=False):
            for count, color in zip(threads, COLORS, strict=False):
                points = [r for r in rows if r["threads"] == count and x in (r["sweep"], "macs")]
                points.sort(key=lambda point: point[x])
                places = [point[x] for point in points]
                times = [point["microseconds"] for point in points]
                style = "." if x == "macs" else ".-"
                panel.plot(places, times, style, color=color, label=of_threads(count))
                if (peak := results["peak_gmacs"][str(count)]) is not None:
                    floor = [point["macs"] / peak / 1e3 for point in points]
                    panel.plot(places, floor, ":", color=color, linewidth=1)
            panel.set_xlabel(AXES.get(x, "multiply-accumulates"))
            panel.set_ylabel("µs")
            panel.grid()
            panel.set_yscale("log")
            if x == "macs":
                panel.set_xscale("log")
            else:
                _doubling(panel, places)
        axes[0].plot([], [], ":", color=TEXT, linewidth=1, label="at the measured peak")
        axes[0].legend(loc="upper left")
        gains, sweep = axes[-1], sweeps[0]
        swept = [row for row in rows if row["sweep"] == sweep]
        for value, color in zip(distinct(swept, sweep), COLORS, strict=False):
            mine = [row for row in swept if row[sweep] == value]
            speed = [mine[0]["microseconds"] / row["microseconds"] for row in mine]
            gains.plot(threads, speed, ".-", color=color, label=str(value))
        gains.legend(title=AXES[sweep], fontsize=8)
        gains.grid()
        gains.set_xlabel("threads")
        gains.set_ylabel(f"× the speed of {of_threads(threads[0])}")
        _doubling(gains, threads)


def _doubling(panel: Axes, ticks: Sequence[int]) -> None:
    panel.set_xscale("log", base=2)
    panel.set_xticks(ticks, [str(tick) for tick in ticks])


if __name__ == "__main__":
    main()
