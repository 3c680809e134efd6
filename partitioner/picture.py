"""The partition picture: a box per VPU subgraph, the CPU's ops outside, crossings dashed."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING

import graphviz

from .text import count, dimensions, headline

if TYPE_CHECKING:
    from .report import Op, PartitionReport

_INK, _FAINT = "#212529", "#5C636A"
_VPU = {"color": "#2B8A3E", "fillcolor": "#EBFBEE"}
_CLUSTER = {
    "color": _VPU["color"],
    "fontcolor": _VPU["color"],
    "fontname": "Helvetica",
    "fontsize": "12",
    "penwidth": "1.5",
    "style": "rounded",
}
_CPU = {"color": "#B02525", "fillcolor": "#FFECEC"}
_ENDS = {"shape": "ellipse", "style": "filled", "color": "#1864AB", "fillcolor": "#E7F5FF"}
_CROSSING = {"style": "dashed", "color": _CPU["color"], "fontcolor": _CPU["color"]}
_BETWEEN = {"style": "dotted", "color": _VPU["color"], "fontcolor": _VPU["color"]}
_WARNING_WIDTH = 100
_REASON_WIDTH, _REASON_LINES = 42, 2  # longer ones are cut; the tooltip has all of it


def to_dot(report: PartitionReport) -> str:
    """The picture in Graphviz's language."""
    return str(_draw(report).source)


def draw(report: PartitionReport, format: str) -> bytes:
    """The picture as an SVG or PNG file.

    Raises:
        RuntimeError: Graphviz is not installed.
    """
    try:
        return bytes(_draw(report).pipe(format=format))
    except graphviz.ExecutableNotFound as error:
        raise RuntimeError(
            f"drawing a {format.upper()} picture takes Graphviz's program `dot`, which is not "
            "installed (Debian, Ubuntu: apt install graphviz; macOS: brew install graphviz). "
            "A .dot file can be saved without it."
        ) from error


def _draw(report: PartitionReport) -> graphviz.Digraph:
    graph = graphviz.Digraph("partition")
    graph.attr(label=_title(report), labelloc="t", fontname="Helvetica", fontcolor=_INK)
    graph.attr(rankdir="TB", nodesep="0.35", ranksep="0.4", pad="0.2", bgcolor="white")
    graph.attr("node", fontname="Helvetica", fontsize="12", fontcolor=_INK, shape="box")
    graph.attr("node", style="filled,rounded", margin="0.14,0.07", height="0.3", width="1.7")
    graph.attr("edge", fontname="Helvetica", fontsize="10", color=_FAINT, arrowsize="0.7")
    drawn_as = _add_ops(graph, report)
    for edge in report.edges:
        tail, head = (drawn_as.get(name, name) for name in (edge.tensor, edge.consumer))
        style = {}
        if edge.direction is not None:
            style = {**_CROSSING, "label": f" {edge.bytes:,} B"}
        elif edge.producer_subgraph != edge.consumer_subgraph:
            style = {**_BETWEEN, "label": f" {edge.bytes:,} B"}
        if tail != head:
            graph.edge(tail, head, **style)
    return graph


def _add_ops(graph: graphviz.Digraph, report: PartitionReport) -> dict[str, str]:
    """Adds the nodes. Returns op -> the node that stands for it, its unit's last op."""
    computed = {op.name for op in report.ops}
    ends = {edge.tensor: dimensions(edge.shape) for edge in report.edges}
    ends.update({edge.consumer: "" for edge in report.edges})
    for name, detail in ends.items():
        if name not in computed:
            graph.node(name, _label(name, [detail]), **_ENDS)
    clusters = {s.index: graphviz.Digraph(f"cluster_{s.index}") for s in report.subgraphs}
    drawn_as = {}
    for step in report.steps:
        last = step[-1]
        drawn_as.update({op.name: last.name for op in step})
        if last.subgraph is None:
            graph.node(last.name, _cpu_label(last), tooltip=f"{last.name}: {last.reason}", **_CPU)
        else:
            label = _label(" + ".join(op.kind for op in step), [dimensions(last.shape)])
            names = ", ".join(op.name for op in step)
            clusters[last.subgraph].node(last.name, label, tooltip=names, **_VPU)
    for subgraph in report.subgraphs:
        # A short label at the left leaves the middle to the arrows that come in.
        cluster = clusters[subgraph.index]
        cluster.attr(label=f"<<B>VPU #{subgraph.index}</B>>", labeljust="l", **_CLUSTER)
        cluster.attr(tooltip=count(subgraph.size, "op"))
        graph.subgraph(cluster)
    return drawn_as


def _title(report: PartitionReport) -> str:
    first, *others = map(escape, headline(report))
    lines = [f"<B>{first}</B>", *(_small(line) for line in others)]
    for warning in report.warnings:
        lines += [_small(escape(line)) for line in wrap(f"Warning: {warning}", _WARNING_WIDTH)]
    legend = "green box: a VPU subgraph · red: on the CPU, and why · dashed: crossing, int8 bytes"
    return f"<{'<BR/>'.join([*lines, _small(legend)])}<BR/> >"


def _cpu_label(op: Op) -> str:
    lines = wrap(op.reason or "", _REASON_WIDTH)
    if len(lines) > _REASON_LINES:
        lines = [*lines[: _REASON_LINES - 1], lines[_REASON_LINES - 1] + " …"]
    return _label(op.kind, [f"CPU: {lines[0]}" if lines else "CPU", *lines[1:]])


def _label(name: str, details: list[str]) -> str:
    """A name in bold above small print."""
    small = (f"<BR/>{_small(escape(line))}" for line in details if line)
    return f"<<B>{escape(name)}</B>{''.join(small)}>"


def _small(markup: str) -> str:
    return f'<FONT POINT-SIZE="10" COLOR="{_FAINT}">{markup}</FONT>'
