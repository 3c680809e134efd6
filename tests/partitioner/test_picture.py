"""The partition picture."""

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from executorch_vpu import partition_report
from executorch_vpu.partitioner.report import PartitionReport

from ..models import SEED_OPS
from .nets import Fork, RandomNet, export_quantized

with_graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


@pytest.fixture(scope="module", params=[Fork(), RandomNet(4)])
def report(request: pytest.FixtureRequest) -> PartitionReport:
    net = request.param
    return partition_report(export_quantized(net, net.inputs, SEED_OPS), ops=SEED_OPS)


def test_dot_has_a_box_per_subgraph_and_a_dashed_edge_per_crossing(report: PartitionReport) -> None:
    dot = report.to_dot()
    boxes = re.findall(r"subgraph cluster_(\d+) \{(.*?)\n\t\}", dot, re.DOTALL)
    assert [int(index) for index, _ in boxes] == [s.index for s in report.subgraphs]
    for (_, box), subgraph in zip(boxes, report.subgraphs, strict=True):
        drawn = re.findall(r"^\t\t(\w+) \[", box, re.MULTILINE)
        assert drawn == [unit.ops[-1] for unit in subgraph.units if unit.ops]
    edges = [line for line in dot.splitlines() if " -> " in line]
    dashed = [line for line in edges if "dashed" in line]
    assert len(dashed) == report.summary.crossings > 0
    written = [int(n.replace(",", "")) for line in dashed for n in re.findall(r"([\d,]+) B", line)]
    assert sum(written) == report.summary.crossing_bytes


def test_dot_shows_reasons_and_edges_between_subgraphs() -> None:
    program = export_quantized(Fork(), Fork.inputs, SEED_OPS)
    dot = partition_report(program, ops=SEED_OPS).to_dot()
    assert 'tooltip="sigmoid: left out of the ops given"' in dot
    assert "CPU: left out of the ops given" in dot
    (between,) = (line for line in dot.splitlines() if " -> " in line and "dotted" in line)
    assert between.strip().startswith("relu -> add")


@with_graphviz
def test_svg_and_png_are_drawn(report: PartitionReport, tmp_path: Path) -> None:
    report.save(tmp_path / "partition.svg")
    root = ElementTree.parse(tmp_path / "partition.svg").getroot()
    text = " ".join(root.itertext())
    assert all(f"VPU #{subgraph.index}" in text for subgraph in report.subgraphs)
    report.save(tmp_path / "partition.PNG")
    assert (tmp_path / "partition.PNG").read_bytes().startswith(b"\x89PNG")
    assert report._repr_svg_() == (tmp_path / "partition.svg").read_text()


def test_without_graphviz_the_error_says_what_to_install(
    report: PartitionReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="apt install graphviz"):
        report.save(tmp_path / "partition.svg")
    assert list(tmp_path.iterdir()) == []
    report.save(tmp_path / "partition.dot")
    assert (tmp_path / "partition.dot").read_text() == report.to_dot()
    assert report._repr_svg_() is None  # a notebook shows the text then
