"""The generated parts of the documentation are what their programs write now: `make docs`."""

from __future__ import annotations

import re
import shutil
from html import unescape
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs import generate_benchmarks
from docs.generate_images import PICTURE, report
from docs.generate_op_support import PAGE, page, reasons
from executorch_vpu import VPU_OPS
from executorch_vpu.partitioner.picture import draw


def test_op_support_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_op_support_page_has_the_reasons_of_checks_and_their_limits() -> None:
    found = {op.name: reasons(op) for op in VPU_OPS.families()}
    assert "its mode is …; only 'constant' is supported" in found["pad"]
    assert any(re.search(r"proven to hold \d+$", reason) for reason in found["matmul"])
    assert any("unbatched" in reason for reason in found["max_pool2d"])  # in a helper of check


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_picture_of_the_report_is_up_to_date() -> None:
    assert labels(PICTURE.read_text(encoding="utf-8")) == labels(draw(report(), "svg").decode())


@pytest.mark.parametrize("page", generate_benchmarks.PAGES, ids=lambda page: page.name)
def test_pages_show_the_results_of_benchmarks(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<!-- results: whole_models table -->" in text
    assert generate_benchmarks.filled(text) == text


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
@pytest.mark.parametrize("benchmark", generate_benchmarks.PLOTS)
def test_pictures_show_the_results_of_benchmarks(benchmark: str, tmp_path: Path) -> None:
    picture = generate_benchmarks.picture(benchmark)
    new = tmp_path / picture.name
    generate_benchmarks.PLOTS[benchmark](generate_benchmarks.results(benchmark), new)
    assert labels(new.read_text(encoding="utf-8")) == labels(picture.read_text(encoding="utf-8"))


def labels(svg: str) -> list[str]:
    """What is written in a picture; how it is drawn depends on the version of what draws it."""
    return sorted(unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", svg))
