"""The fallback report: which ops run on the VPU, which on the CPU and why, and what crosses over.

It is a view of the plan VpuPartitioner delegates by, for the same program and arguments.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from ..backend.decomposed import is_decomposed
from ..backend.namespace import aten_target
from ..backend.regions import is_region
from ..backend.units import is_quantize
from . import picture, text
from .flow import Edge, Shape, Transfer, find_edges, find_transfers, shape_of_value
from .inputs import order_warnings, strided_inputs
from .plan import Plan, make_plan
from .ranges import narrow_parts, range_warnings
from .rewrite import Boundary, check_boundary

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Op:
    """One op of the program.

    Attributes:
        name: its node in the exported graph.
        op: what it calls, such as "aten.conv2d.default".
        shape: of its output.
        subgraph: index of its VPU subgraph; None on the CPU.
        unit: the ops it is fused with, itself included, such as "conv2d+relu"; None on the CPU.
        reason: why it is on the CPU; None on the VPU.
    """

    name: str
    op: str
    device: Literal["VPU", "CPU"]
    shape: Shape
    subgraph: int | None = None
    unit: str | None = None
    reason: str | None = None

    @property
    def kind(self) -> str:
        """The op's bare name, such as "conv2d"; "relu" also if it works in place."""
        return self.op.split(".")[1].rstrip("_") if "." in self.op else self.op


@dataclass(frozen=True)
class Unit:
    """Ops the VPU executes as one; a requantization has none."""

    name: str
    ops: tuple[str, ...]


@dataclass(frozen=True)
class Subgraph:
    """What one delegate executes."""

    index: int
    units: tuple[Unit, ...]

    @property
    def size(self) -> int:
        """Number of ops."""
        return sum(len(unit.ops) for unit in self.units)


@dataclass(frozen=True)
class Summary:
    """Totals of a report, per inference.

    Attributes:
        crossings, crossing_bytes: edges between the devices, at one byte (int8) per element; a
            tensor with two readers across counts twice.
        unique_crossings, unique_crossing_bytes: the same, each tensor once per direction.
        moved_tensors, moved_bytes: the inputs and outputs of the delegates, in their own types.
    """

    vpu_ops: int
    cpu_ops: int
    subgraph_sizes: tuple[int, ...]
    crossings: int
    crossing_bytes: int
    unique_crossings: int
    unique_crossing_bytes: int
    moved_tensors: int
    moved_bytes: int


@dataclass(frozen=True)
class PartitionReport:
    """What VpuPartitioner will do with a program.

    `print(report)` shows it as tables, in a notebook its value is the picture.

    Attributes:
        ops: all of them, in execution order.
        edges: every value an op or the output reads, crossing or not.
        transfers: what the delegates take and give at run time.
        hints: advice in words, for programs that leave something to be desired.
        warnings: what will not be as one may expect at run time, in words.
    """

    ops: tuple[Op, ...]
    subgraphs: tuple[Subgraph, ...]
    edges: tuple[Edge, ...]
    transfers: tuple[Transfer, ...]
    hints: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def crossings(self) -> tuple[Edge, ...]:
        """The edges between CPU and VPU."""
        return tuple(edge for edge in self.edges if edge.direction)

    @property
    def reasons(self) -> dict[str, tuple[Op, ...]]:
        """Why ops are on the CPU: reason -> ops."""
        grouped: dict[str, list[Op]] = {}
        for op in self.ops:
            if op.reason is not None:
                grouped.setdefault(op.reason, []).append(op)
        return {reason: tuple(ops) for reason, ops in grouped.items()}

    @property
    def steps(self) -> list[tuple[Op, ...]]:
        """The ops in execution order, those of a VPU unit together."""
        unit_of = {op: unit for graph in self.subgraphs for unit in graph.units for op in unit.ops}
        members: dict[object, list[Op]] = {}
        for op in self.ops:
            unit = unit_of.get(op.name)
            members.setdefault(op.name if unit is None else (unit.ops,), []).append(op)
        return [tuple(ops) for ops in members.values()]

    @property
    def summary(self) -> Summary:
        crossings = self.crossings
        unique = {(edge.direction, edge.tensor): edge.bytes for edge in crossings}
        on_vpu = sum(op.device == "VPU" for op in self.ops)
        return Summary(
            vpu_ops=on_vpu,
            cpu_ops=len(self.ops) - on_vpu,
            subgraph_sizes=tuple(subgraph.size for subgraph in self.subgraphs),
            crossings=len(crossings),
            crossing_bytes=sum(edge.bytes for edge in crossings),
            unique_crossings=len(unique),
            unique_crossing_bytes=sum(unique.values()),
            moved_tensors=len(self.transfers),
            moved_bytes=sum(transfer.bytes for transfer in self.transfers),
        )

    def to_json(self) -> dict[str, Any]:
        """The report as what `json.dumps` takes: `summary` (see Summary), `ops`, `subgraphs`,
        `reasons`, `crossings`, `transfers`, `hints`, `warnings`."""
        report = {
            "summary": asdict(self.summary),
            "ops": [asdict(op) for op in self.ops],
            "subgraphs": [{**asdict(graph), "size": graph.size} for graph in self.subgraphs],
            "reasons": {why: [op.name for op in ops] for why, ops in self.reasons.items()},
            "crossings": [
                {
                    "direction": edge.direction,
                    "tensor": edge.tensor,
                    "consumer": edge.consumer,
                    "shape": edge.shape,
                    "bytes": edge.bytes,
                }
                for edge in self.crossings
            ],
            "transfers": [asdict(transfer) for transfer in self.transfers],
            "hints": self.hints,
            "warnings": self.warnings,
        }
        plain: dict[str, Any] = json.loads(json.dumps(report))  # tuples become lists
        return plain

    def to_text(self, width: int | None = None) -> str:
        """The report as tables, at most `width` columns wide; None for the terminal's width."""
        return text.to_text(self, width or shutil.get_terminal_size((100, 24)).columns)

    def to_dot(self) -> str:
        """The partition picture in Graphviz's language: a box per subgraph, dashed crossings."""
        return picture.to_dot(self)

    def save(self, path: str | Path) -> None:
        """Writes the report, in the format the file's suffix says: .txt, .json, or the picture as
        .dot, .svg or .png.

        Raises:
            ValueError: another suffix.
            RuntimeError: .svg or .png, and Graphviz's `dot` program is not installed.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix == ".txt":
            path.write_text(self.to_text() + "\n", encoding="utf-8")
        elif suffix == ".json":
            path.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        elif suffix == ".dot":
            path.write_text(self.to_dot(), encoding="utf-8")
        elif suffix in (".svg", ".png"):
            path.write_bytes(picture.draw(self, suffix[1:]))
        else:
            raise ValueError(
                f"cannot save a report as {str(path)!r}: the suffix says the format, and must be "
                ".txt, .json, .dot, .svg or .png"
            )

    def __str__(self) -> str:
        return self.to_text()

    def __rich__(self) -> Group:
        return text.tables(self)

    def _repr_svg_(self) -> str | None:
        try:
            return picture.draw(self, "svg").decode()
        except RuntimeError:  # no Graphviz: the notebook shows the text instead
            return None


def partition_report(
    model: torch.nn.Module | ExportedProgram,
    inputs: Sequence[Any] | None = None,
    *,
    ops: Iterable[OpOverload] | None = None,
    min_ops: int = 1,
    boundary: Boundary = "float",
) -> PartitionReport:
    """Says what VpuPartitioner(ops, min_ops, boundary) would do with a quantized model.

    Args:
        model: what `convert_pt2e` returned, or the ExportedProgram made of it, not yet lowered.
            It is not changed.
        inputs: example inputs to export a module with; not needed for an ExportedProgram.
        ops: the ATen overloads the VPU has, a subset of VPU_OPS; None for all.
        min_ops: subgraphs with fewer ops than this stay on the CPU.
        boundary: what the delegates take and give, "float" or "int8".

    Raises:
        TypeError: `model` or `inputs` is none of the above.
        ValueError: the model is not converted yet or lowered already; inputs are missing; `ops`,
            `min_ops` or `boundary` is out of range.
    """
    check_boundary(boundary)
    program = _exported(model, inputs)
    plan = make_plan(program, ops, min_ops)
    return _describe(plan, boundary, tuple(_warnings(plan, program)))


def _exported(model: object, inputs: object) -> ExportedProgram:
    if isinstance(model, ExportedProgram):
        if model.dialect == "EDGE":
            raise ValueError(
                "the program is lowered to the edge dialect already: partition_report takes the "
                "one that to_edge_transform_and_lower is given"
            )
        return model
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            "partition_report takes the quantized module that convert_pt2e returned, or an "
            f"ExportedProgram, not {type(model).__name__}"
        )
    if _has_observers(model):
        raise ValueError("the model still has observers in it: call convert_pt2e first")
    if inputs is None:
        raise ValueError(
            "a module is exported with example inputs: call partition_report(model, inputs)"
        )
    if not isinstance(inputs, (tuple, list)):
        raise TypeError(f"inputs is a tuple of example inputs, not {type(inputs).__name__}")
    return torch.export.export(model, tuple(inputs))


def _has_observers(model: torch.nn.Module) -> bool:
    from torchao.quantization.pt2e import FakeQuantizeBase, ObserverBase

    return any(isinstance(module, (FakeQuantizeBase, ObserverBase)) for module in model.modules())


def _describe(plan: Plan, boundary: Boundary, warnings: Iterable[str]) -> PartitionReport:
    on_vpu = {
        node: (subgraph.index, unit.name)
        for subgraph in plan.subgraphs
        for unit in subgraph.units
        for node in unit.nodes
    }
    ops = tuple(_describe_op(node, on_vpu.get(node), plan.reasons.get(node)) for node in plan.ops)
    subgraphs = tuple(
        Subgraph(
            subgraph.index,
            tuple(Unit(unit.name, tuple(n.name for n in unit.nodes)) for unit in subgraph.units),
        )
        for subgraph in plan.subgraphs
    )
    edges = tuple(find_edges(plan))
    hints, warnings = tuple(_hints(plan)), tuple(warnings)
    transfers = tuple(find_transfers(plan, boundary))  # the last: it uses the plan up
    return PartitionReport(ops, subgraphs, edges, transfers, hints, warnings)


def _describe_op(node: Node, on_vpu: tuple[int, str] | None, reason: str | None) -> Op:
    target = aten_target(node)
    op = getattr(node.target, "__name__", str(node.target)) if target is None else str(target)
    shape = shape_of_value(node)
    if on_vpu is None:
        return Op(node.name, op, "CPU", shape, reason=reason)
    return Op(node.name, op, "VPU", shape, *on_vpu)


def _warnings(plan: Plan, program: ExportedProgram) -> Iterable[str]:
    yield from order_warnings(strided_inputs(plan.graph, program))
    yield from range_warnings(plan)
    yield from narrow_parts(plan)


def _hints(plan: Plan) -> Iterable[str]:
    decomposed = next((node for node in plan.ops if is_decomposed(node)), None)
    if decomposed is not None:
        yield (
            f"The program looks decomposed: it calls {decomposed.name}. Give VpuPartitioner, and "
            "this report, the program as torch.export gives it, before run_decompositions()."
        )
    elif any(is_region(node) for node in plan.ops):
        yield (
            "Nothing inside a region (torch.no_grad(), torch.autocast, control flow) is quantized "
            "or delegated. The reasons above say what helps."
        )
    elif plan.ops and not any(is_quantize(node) for node in plan.graph.nodes):
        yield (
            "The program is not quantized. Run it through prepare_pt2e with VpuQuantizer, "
            "calibrate, convert_pt2e, and export again."
        )
    inputs = (node for node in plan.graph.nodes if node.op == "placeholder")
    if any(isinstance(size, str) for node in inputs for size in shape_of_value(node)):
        yield (
            "The program takes inputs of dynamic shapes. What has one stays on the CPU: the VPU's "
            "memory is planned ahead. Export the quantized model again, with inputs of the size "
            "it will have and without dynamic_shapes."
        )
    alone = sum(len(subgraph.ops) == 1 for subgraph in plan.subgraphs)
    if alone > 1:
        yield (
            f"{alone} subgraphs hold a single op: their transfers may cost more than they save. "
            "min_ops=2 keeps them on the CPU."
        )
