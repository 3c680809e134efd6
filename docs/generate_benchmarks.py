"""Writes what the pages show of measured results: python -m docs.generate_benchmarks

Results are docs/results/<benchmark>.json, written by `python -m benchmarks.<benchmark> --json`.
Each is drawn as docs/images/<benchmark>.svg. A page has a place for a table, or for the machine:

    <!-- results: whole_models table -->
    <!-- end of results -->

Needs matplotlib.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks import footprint, kernels, machine, scaling, whole_models

DOCS = Path(__file__).parent
PAGES = (DOCS.parent / "README.md", DOCS / "benchmarks.md")
PLOTS = {
    "whole_models": whole_models.plot,
    "kernels": kernels.plot,
    "footprint": footprint.plot,
    "scaling": scaling.plot,
}
TABLES = {"whole_models": whole_models.table, "footprint": footprint.table}

_PLACE = re.compile(
    r"(<!-- results: (\w+) (table|machine) -->\n).*?(<!-- end of results -->)", re.DOTALL
)


def results(benchmark: str) -> dict[str, Any]:
    path = DOCS / "results" / f"{benchmark}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def picture(benchmark: str) -> Path:
    return DOCS / "images" / f"{benchmark}.svg"


def filled(page: str) -> str:
    """A page's text with the results of now in its places."""

    def fill(place: re.Match[str]) -> str:
        before, benchmark, what, after = place.groups()
        found = results(benchmark)
        if what == "table":
            return f"{before}\n{TABLES[benchmark](found).markdown()}\n{after}"
        return f"{before}\n{machine.text(found['machine'])}\n\n{after}"

    return _PLACE.sub(fill, page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {path}")
    for benchmark, plot in PLOTS.items():
        plot(results(benchmark), picture(benchmark))
