"""Drawing results: SVG that reads on light and on dark pages. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .command import err

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# In the middle between black and white, so that they stand out from both.
TEXT = "#7d838c"
FAINT = "#7d838c55"
COLORS = ("#2f81f7", "#c9822b", "#a06bdb", "#3d9a55", "#d6547b", "#2b9d9d")


@contextmanager
def drawing(
    path: Path, columns: int, width: float, height: float, rows: int = 1
) -> Iterator[list[Axes]]:
    """The panels of a figure, row by row, which is written to `path` at the end."""
    import matplotlib
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "axes.edgecolor": FAINT,
        "axes.axisbelow": True,
        "axes.labelcolor": TEXT,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": TEXT,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "font.size": 9,
        "grid.color": FAINT,
        "legend.frameon": False,
        "legend.labelcolor": TEXT,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "benchmarks",  # the same results give the same file
        "text.color": TEXT,
        "xtick.color": TEXT,
        "ytick.color": TEXT,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        yield list(axes.flat)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
    err.print(f"wrote {path}")
