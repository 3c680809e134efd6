"""Tables: what becomes of texts and numbers where there is little room."""

from __future__ import annotations

import random
import re

import pytest
from rich.console import Console
from rich.text import Text

from executorch_vpu.partitioner.columns import Columns


def shown(table: Columns, width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def table() -> Columns:
    result = Columns("Layers", ("name", "output", "in all"), right=("in all",), edge=False)
    result.add("conv2d_12 + relu", "1x64x112x112", "1,284,505 us")
    result.add("", "7", "0.5")
    result.add("last")
    return result


def test_what_fits_is_a_row_per_line() -> None:
    lines = [line.split() for line in shown(table(), 60).splitlines()]
    assert ["conv2d_12", "+", "relu", "1x64x112x112", "1,284,505", "us"] in lines
    assert ["7", "0.5"] in lines and ["last"] in lines


def test_words_are_wrapped_first_then_folded_then_rows_become_lines() -> None:
    wrapped = shown(table(), 39)
    assert "conv2d_12" in wrapped and "conv2d_12 + relu" not in wrapped
    folded = shown(table(), 26)
    assert "conv2d_12" not in folded and "1,284,505" in folded
    assert "in all: 1,284,505\nus\n" in shown(table(), 17)


def test_numbers_are_right_and_texts_left() -> None:
    row = next(line for line in shown(table(), 60).splitlines() if "0.5" in line)
    assert row.startswith(" ") and row.endswith("0.5")


def test_square_brackets_are_no_markup_and_styles_are_kept() -> None:
    result = Columns("[red]", ("[b]",))
    result.add(Text("[i] VPU", "green"))
    assert all(text in shown(result, 40) for text in ("[red]", "[b]", "[i] VPU"))
    console = Console(width=5, force_terminal=True, color_system="standard")
    with console.capture() as capture:
        console.print(result)
    assert "\x1b[32m" in capture.get()


@pytest.mark.parametrize("seed", range(20))
def test_every_number_survives_in_order_at_every_width(seed: int) -> None:
    rng = random.Random(seed)

    def cell() -> str:
        number = f"{10 ** rng.uniform(-3, 7):,.{rng.randrange(4)}f}"
        return rng.choice(
            ["{}", "{}×", "({} %)", "a_{}_b", "1x{}x3", "some words {} and more", ""]
        ).format(number)

    rows = [[cell() for _ in range(4)] for _ in range(5)]
    result = Columns("", [f"column {'abcd'[i]}" for i in range(4)])
    for row in rows:
        result.add(*row)
    numbers = re.compile(r"\d[\d.,]*")
    expected = sorted(numbers.findall(" ".join(cell for row in rows for cell in row)))
    for width in (*range(14, 60), 80, 200):
        text = shown(result, width)
        assert sorted(numbers.findall(text)) == expected, text
        assert max(map(len, text.splitlines())) <= width
