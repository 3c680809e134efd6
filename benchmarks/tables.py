"""Results as a table: on a terminal, or in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from executorch_vpu.partitioner.columns import Columns


@dataclass(frozen=True)
class Grid:
    """Texts in columns; the first `left` of them are names, the others numbers."""

    title: str
    columns: Sequence[str]
    left: int
    rows: list[Sequence[str]] = field(default_factory=list)

    def rich(self) -> Columns:
        table = Columns(self.title, self.columns, right=self.columns[self.left :])
        for row in self.rows:
            table.add(*row)
        return table

    def markdown(self) -> str:
        rules = ["---" if index < self.left else "---:" for index in range(len(self.columns))]
        lines = (self.columns, rules, *self.rows)
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def distinct(rows: Iterable[dict[str, Any]], key: str) -> list[Any]:
    """A column's values, each once, in order."""
    return list(dict.fromkeys(row[key] for row in rows))


def find(rows: Iterable[dict[str, Any]], **values: Any) -> dict[str, Any]:
    """The first row with these values."""
    return next(row for row in rows if values.items() <= row.items())


def of_threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"
