"""Planning, lowering and reporting a graph of twice as many ops takes twice as many steps.

Steps are lines of this package that Python runs, every turn of a loop among them; time would depend
on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from torch.fx import Graph

import executorch_vpu
from executorch_vpu import VPU_OPS
from executorch_vpu.backend.builder import ProgramBuilder
from executorch_vpu.backend.serialize import serialize
from executorch_vpu.partitioner.plan import plan_graph
from executorch_vpu.partitioner.ranges import narrow_parts, range_warnings
from executorch_vpu.partitioner.report import _describe

from . import large

PACKAGE = {str(Path(folder).resolve()) for folder in executorch_vpu.__path__}
OPS = 240
Step = Callable[[Graph], object]


def steps(function: Step, graph: Graph) -> int:
    """How many lines of the package a call runs."""
    count = 0

    def local(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return local

    def entered(frame: FrameType, event: str, argument: object) -> Any:
        inside = any(frame.f_code.co_filename.startswith(folder) for folder in PACKAGE)
        return local if inside else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        function(graph)
    finally:
        sys.settrace(before)
    return count


def growth(function: Step, shape: Callable[[int], Graph]) -> float:
    small, double = shape(OPS), shape(2 * OPS)
    function(shape(10))  # what is looked up once per op family
    first = steps(function, small)
    assert first > OPS, "nothing was counted"
    return steps(function, double) / first


def plan_and_report(graph: Graph) -> object:
    """The report writes the plan into the graph, too."""
    plan = plan_graph(graph, VPU_OPS, 1)
    told = (*range_warnings(plan), *narrow_parts(plan))
    report = _describe(plan, "float", told)
    return report.to_json(), report.steps


def lower(graph: Graph) -> object:
    return serialize(ProgramBuilder().lower(graph, VPU_OPS))


@pytest.mark.parametrize("shape", large.SHAPES)
def test_planning_and_reporting_grow_with_the_graph(shape: Callable[[int], Graph]) -> None:
    assert growth(plan_and_report, shape) < 2.2


@pytest.mark.parametrize("shape", large.ON_THE_VPU)
def test_lowering_grows_with_the_graph(shape: Callable[[int], Graph]) -> None:
    assert growth(lower, shape) < 2.2
