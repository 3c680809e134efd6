"""The documentation's fenced code blocks, and running them.

A block's language says what becomes of it. A page's blocks run in order, in one directory, its
Python in one namespace:

    python, bash     run
    sh               set-up commands: .ci/run runs those
    text             what the blocks before printed: every line is compared, numbers aside
    formula          neither code nor output
    <any> file=PATH  a quotation: the text stands in that file

Run as a program, it runs one page: python pages.py PAGE.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its fence, its text, and the line the text starts at."""

    info: tuple[str, ...]
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.info[0] if self.info else ""

    @property
    def quoted_file(self) -> str | None:
        return next((w.removeprefix("file=") for w in self.info if w.startswith("file=")), None)


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    fence = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    source = page.read_text(encoding="utf-8")
    for match in fence.finditer(source):
        line = source.count("\n", 0, match.start(2)) + 1
        yield Block(tuple(match[1].split()), match[2], line)


def run_page(page: Path) -> None:
    """Runs the page's blocks in the current directory.

    Raises:
        AssertionError: a `text` block has a line that was not printed.
        subprocess.CalledProcessError: a bash block failed.
        Exception: whatever a Python block raises.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed: list[str] = []
    for block in blocks(page):
        if block.quoted_file is not None:
            continue
        if block.language == "python":
            # Leading newlines make tracebacks point into the page.
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            printed += _captured(partial(exec, code, namespace))
        elif block.language == "bash":
            printed += _captured(partial(_run_bash, block))
        elif block.language == "text":
            _check_printed(page, block, printed)


def _run_bash(block: Block) -> None:
    subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], check=True)


def _captured(run: Callable[[], None]) -> list[str]:
    """The lines a call prints, to stdout and stderr, C++ and child processes included. They are
    shown as well."""
    sys.stdout.flush()
    saved = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            run()
        finally:
            sys.stdout.flush()
            for stream, copy in enumerate(saved, start=1):
                os.dup2(copy, stream)
                os.close(copy)
            file.seek(0)
            output = file.read()
            print(output, end="", flush=True)
    return output.splitlines()


def _check_printed(page: Path, block: Block, printed: list[str]) -> None:
    known = {_shape(line) for line in printed}
    for offset, line in enumerate(block.text.splitlines()):
        if line.strip() not in ("", "..."):
            where = f"{page.name}:{block.line + offset}"
            assert _shape(line) in known, f"{where}: no block before prints {line!r}"


def _shape(line: str) -> str:
    """A line with numbers, and the widths that depend on them, taken out."""
    line = re.sub(r"\b[\da-f]{8}\b|[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", line)
    return re.sub(r"([\s─━═-])+", r"\1", line).strip()


if __name__ == "__main__":
    run_page(Path(sys.argv[1]).resolve())
