"""The plan: which ops run on the VPU, in which subgraphs, and why the others do not.

It is made once, on the Q/DQ graph before any decomposition; the report prints it, the partitioner
tags by it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from ..backend.constants import attach_constants
from ..backend.grouping import ONLY_MOVES_DATA, Item, convex_groups, only_moves_data
from ..backend.namespace import aten_target
from ..backend.ops import VPU_OPS
from ..backend.table import OpTable
from ..backend.units import Unit, find_units, is_op


@dataclass(frozen=True)
class Subgraph:
    """Units that are delegated together, in topological order."""

    index: int
    units: tuple[Unit, ...]

    @property
    def ops(self) -> list[Node]:
        return [node for unit in self.units for node in unit.nodes]


@dataclass(frozen=True)
class Plan:
    """Where every op of a graph runs.

    Attributes:
        graph: a copy of the program's graph, which the partitioner may edit.
        subgraphs: what is delegated, ordered by first op.
        reasons: for every op on the CPU, why.
    """

    graph: Graph
    subgraphs: tuple[Subgraph, ...]
    reasons: dict[Node, str]

    @property
    def ops(self) -> list[Node]:
        """Every op, in execution order."""
        return [node for node in self.graph.nodes if is_op(node)]

    def subgraph_of(self) -> dict[Node, Subgraph]:
        """Op on the VPU -> its subgraph."""
        return {node: subgraph for subgraph in self.subgraphs for node in subgraph.ops}


def make_plan(
    program: ExportedProgram, ops: Iterable[OpOverload] | None = None, min_ops: int = 1
) -> Plan:
    """Plans a program; does not change it.

    Args:
        program: exported from a quantized (Q/DQ) module, ATen dialect.
        ops: the part of VPU_OPS to use; None for all of it.
        min_ops: subgraphs with fewer ops stay on the CPU.
    Raises:
        ValueError: `ops` has entries outside the table, or min_ops is below 1.
    """
    table = VPU_OPS.subset(ops)
    check_min_ops(min_ops)
    graph = copy.deepcopy(program.graph)
    for original, copied in zip(program.graph.nodes, graph.nodes, strict=True):
        copied.name = original.name  # a copy renames "input"; the signature knows nodes by name
    _drop_assertions(graph)
    attach_constants(graph, program)
    return plan_graph(graph, table, min_ops)


def _drop_assertions(graph: Graph) -> None:
    """Erases what `to()` and `type_as()` assert of a tensor's type: known from the export, and a
    reader on the CPU of what may never leave the VPU."""
    for node in list(graph.nodes):
        if aten_target(node) is torch.ops.aten._assert_tensor_metadata.default:
            graph.erase_node(node)


def check_min_ops(min_ops: int) -> None:
    if min_ops < 1:
        raise ValueError(f"min_ops is {min_ops}; a subgraph has at least 1 op")


def plan_graph(graph: Graph, table: OpTable, min_ops: int) -> Plan:
    """Plans a graph whose constants are attached (`attach_constants`)."""
    found = find_units(graph, table)
    reasons = dict(found.reasons)
    unit_at = {unit.quantize: unit for unit in found.units}
    items = [
        Item((*unit.nodes, unit.quantize), unit.sources, unit.data_movement) for unit in found.units
    ]
    kept: list[tuple[Unit, ...]] = []
    for group in convex_groups(graph, items):
        units = tuple(unit_at[item.output] for item in group)
        reason = _not_worth_it(units, group, min_ops)
        if reason is None:
            kept.append(units)
        else:
            reasons.update({node: reason for unit in units for node in unit.nodes})
    position = {node: i for i, node in enumerate(graph.nodes)}
    kept.sort(key=lambda units: min(position[node] for unit in units for node in unit.nodes))
    subgraphs = tuple(Subgraph(i, units) for i, units in enumerate(kept))
    return Plan(graph, subgraphs, reasons)


def _not_worth_it(units: tuple[Unit, ...], group: list[Item], min_ops: int) -> str | None:
    count = sum(len(unit.nodes) for unit in units)
    if count < min_ops:
        return f"its subgraph would have {count} op{'s' * (count != 1)}; min_ops is {min_ops}"
    if only_moves_data(group):
        return ONLY_MOVES_DATA
    return None
