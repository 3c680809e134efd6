"""Tables for a terminal of any width: words are wrapped and folded, numbers stay whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

# What is never divided: a number, with the x that follows it in a shape, or a character.
_ATOM = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?x?|\S")
_WORD = re.compile(r"\S+")


class Columns:
    """Rows of texts under column titles, for rich to print.

    What does not fit the console's width is wrapped between words; then folded within them, but
    not within numbers; and if that does not help, every row becomes lines of `title: text`.

    Args:
        title: above all.
        titles: of the columns.
        right: those of `titles` that are above numbers, which are aligned to the right.
        edge: with a space at each side and an empty line above and below.
        style: of the title.
    """

    def __init__(
        self,
        title: str,
        titles: Sequence[str],
        right: Sequence[str] = (),
        edge: bool = True,
        style: str = "italic",
    ) -> None:
        self._title = Text(title, style)
        self._titles = [Text(text) for text in titles]
        self._right = [text in right for text in titles]
        self._edge = edge
        self._rows: list[list[Text]] = []

    def add(self, *cells: str | Text) -> None:
        """Adds a row: a text for every column, of which the last may be left out."""
        missing = [""] * (len(self._titles) - len(cells))
        row = (*cells, *missing)
        self._rows.append([Text(cell) if isinstance(cell, str) else cell for cell in row])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _folded(self._title, options.max_width)
        columns = list(zip(self._titles, *self._rows, strict=True))
        empty = self._table([1] * len(columns), [])
        around = Measurement.get(console, options.update(max_width=1000), empty).maximum
        widths = _widths(columns, options.max_width - around + len(columns))
        if widths is not None:
            yield self._table(widths, self._rows)
        else:
            yield from self._lines(options.max_width)

    def _table(self, widths: Sequence[int], rows: Sequence[Sequence[Text]]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=self._edge, pad_edge=self._edge)
        for title, width, right in zip(self._titles, widths, self._right, strict=True):
            justify: JustifyMethod = "right" if right else "left"
            table.add_column(_folded(title, width), width=width, justify=justify)
        for row in rows:
            table.add_row(*map(_folded, row, widths))
        return table

    def _lines(self, width: int) -> Iterator[Text]:
        for row in self._rows:
            yield Text()
            for title, cell in zip(self._titles, row, strict=True):
                name = f"{title.plain}: " if title.plain else ""
                yield _folded(Text(name + cell.plain, cell.style), width)


def _widths(columns: Sequence[Sequence[Text]], available: int) -> list[int] | None:
    """A width for every column, all of them at most `available`, or None if numbers do not fit."""
    naturals = [max(_longest(_line_lengths(cell.plain)) for cell in column) for column in columns]
    for pattern in (_WORD, _ATOM):
        least = [max(_longest(_lengths(pattern, cell.plain)) for cell in c) for c in columns]
        if sum(least) <= available:
            return _narrowed(naturals, least, available)
    return None


def _narrowed(widths: Sequence[int], least: Sequence[int], available: int) -> list[int]:
    """The widths, the widest made narrower until their sum is `available`."""
    result = [max(min(width, available), low) for width, low in zip(widths, least, strict=True)]
    while sum(result) > available:
        wide = [index for index, low in enumerate(least) if result[index] > low]
        result[max(wide, key=result.__getitem__)] -= 1
    return result


def _lengths(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    return (cell_len(found) for found in pattern.findall(text))


def _line_lengths(text: str) -> Iterator[int]:
    return map(cell_len, text.splitlines())


def _longest(lengths: Iterator[int]) -> int:
    return max(lengths, default=1)


def _folded(text: Text, width: int) -> Text:
    """The text in lines of at most `width`, where its numbers allow it."""
    lines = (line for part in text.plain.split("\n") for line in _fold(part, width))
    return Text("\n".join(lines), text.style)


def _fold(text: str, width: int) -> Iterator[str]:
    line = ""
    for space, word in re.findall(r"(\s*)(\S+)", text):
        if cell_len(line + space + word) <= width:
            line += space + word
            continue
        if line:
            yield line
        line = ""
        for atom in [word] if cell_len(word) <= width else _ATOM.findall(word):
            if line and cell_len(line + atom) > width:
                yield line
                line = ""
            line += atom
    yield line
