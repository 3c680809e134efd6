"""The fallback report as tables for a terminal."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.text import Text

from .columns import Columns
from .flow import Shape

if TYPE_CHECKING:
    from .report import PartitionReport

_COLOURS = {"VPU": "green", "CPU": "red"}
_SIZES_SHOWN = 12


def to_text(report: PartitionReport, width: int) -> str:
    """The tables as plain text, at most `width` columns wide."""
    console = Console(file=StringIO(), width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(tables(report))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def tables(report: PartitionReport) -> Group:
    """The tables; rich shows them in colour."""
    parts: list[RenderableType] = [Text(line) for line in headline(report)]
    parts += [Text(f"Warning: {warning}") for warning in report.warnings]
    parts.append(_ops(report))
    if report.reasons:
        parts.append(_reasons(report))
    if report.crossings:
        parts.append(_crossings(report))
    if report.transfers:
        parts.append(_transfers(report))
    parts += [Text(f"\nHint: {hint}") for hint in report.hints]
    return Group(*parts)


def headline(report: PartitionReport) -> list[str]:
    """The totals, a line each: devices, crossings, bytes moved."""
    s = report.summary
    where = f"{count(s.vpu_ops, 'op')} on the VPU"
    if s.subgraph_sizes:
        sizes = [str(size) for size in s.subgraph_sizes[:_SIZES_SHOWN]]
        if len(s.subgraph_sizes) > _SIZES_SHOWN:
            sizes.append("…")
        where += f" in {count(len(s.subgraph_sizes), 'subgraph')} ({', '.join(sizes)})"
    return [
        f"{where}, {count(s.cpu_ops, 'op')} on the CPU",
        f"{count(s.crossings, 'crossing')}, {s.crossing_bytes:,} bytes as int8 "
        f"(each tensor once: {s.unique_crossings:,}, {s.unique_crossing_bytes:,} bytes)",
        f"really moved per inference: {count(s.moved_tensors, 'tensor')}, {s.moved_bytes:,} bytes",
    ]


def count(number: int, noun: str) -> str:
    """`1 op`, `2 ops`."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def dimensions(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _table(title: str, *columns: str, right: tuple[str, ...] = ()) -> Columns:
    return Columns(f"\n{title}", columns, right, edge=False, style="bold")


def _device(subgraph: int | None) -> Text:
    if subgraph is None:
        return Text("CPU", _COLOURS["CPU"])
    return Text(f"VPU #{subgraph}", _COLOURS["VPU"])


def _ops(report: PartitionReport) -> Columns:
    table = _table("Ops, in execution order", "device", "op", "node", "output")
    for step in report.steps:
        table.add(
            _device(step[0].subgraph),
            " + ".join(op.kind for op in step),
            ", ".join(op.name for op in step),
            dimensions(step[-1].shape),
        )
    return table


def _reasons(report: PartitionReport) -> Columns:
    table = _table("On the CPU, and why", "ops", "reason", "which", right=("ops",))
    for reason, ops in sorted(report.reasons.items(), key=lambda entry: -len(entry[1])):
        table.add(str(len(ops)), Text(reason), ", ".join(op.name for op in ops))
    return table


def _crossings(report: PartitionReport) -> Columns:
    table = _table(
        "Crossings", "direction", "tensor", "to", "shape", "int8 bytes", right=("int8 bytes",)
    )
    for edge in report.crossings:
        table.add(
            edge.direction or "",
            edge.tensor,
            edge.consumer,
            dimensions(edge.shape),
            f"{edge.bytes:,}",
        )
    return table


def _transfers(report: PartitionReport) -> Columns:
    table = _table(
        "What the delegates take and give", *_TRANSFER_COLUMNS, right=_TRANSFER_COLUMNS[-1:]
    )
    for t in report.transfers:
        table.add(
            _device(t.subgraph),
            "takes" if t.direction == "CPU→VPU" else "gives",
            t.tensor,
            dimensions(t.shape),
            t.dtype,
            f"{t.bytes:,}",
        )
    return table


_TRANSFER_COLUMNS = ("delegate", "", "tensor", "shape", "type", "bytes")
