"""Everything the documentation says to type is typed here, or in .ci/run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import PAGES, ROOT, blocks

PROGRAM = Path(__file__).with_name("pages.py")
RUN = [page for page in PAGES if any(b.language in ("python", "bash") for b in blocks(page))]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", RUN, ids=name)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "TERM": "dumb",  # no colours
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(page)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_quotations_are_in_the_files_they_name(page: Path) -> None:
    for block in blocks(page):
        if block.quoted_file is not None:
            quoted = (ROOT / block.quoted_file).read_text(encoding="utf-8")
            assert block.text in quoted, f"line {block.line}: not in {block.quoted_file}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_has_a_language_that_says_how_it_is_checked(page: Path) -> None:
    for block in blocks(page):
        checked = block.language in ("python", "bash", "sh", "text", "formula") or block.quoted_file
        assert checked, f"line {block.line}: {block.info}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_set_up_commands_are_run_by_ci(page: Path) -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for block in blocks(page):
        if block.language == "sh":
            for line in block.text.splitlines():
                command = line.partition("#")[0].strip()
                assert not command or command in ci, f"line {block.line}: {command}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    source = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", source):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in _anchors(linked), target


def _anchors(page: Path) -> set[str]:
    """The anchors GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_readme_shows_the_quickstart_example() -> None:
    example = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    code = example.partition('"""\n\n')[2]
    assert code in [b.text for b in blocks(ROOT / "README.md") if b.language == "python"]
