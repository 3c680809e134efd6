"""Whole networks: one subgraph, each unit as the Q/DQ graph, bit for bit as the reference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from torch.export import ExportedProgram

from benchmarks.models import load_model
from executorch_vpu.backend.interpreter import VpuInterpreter, available_isas
from executorch_vpu.backend.program import VpuProgram
from executorch_vpu.backend.reference import Reference
from executorch_vpu.backend.serialize import serialize
from executorch_vpu.partitioner.plan import make_plan
from tests.support.pipeline import lower_whole, quantize, sqnr_db, worst_unit_error

MODELS = ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small")
SIZE = 128  # pixels: the same graph as at 224, at a third of the work


@dataclass(frozen=True)
class Case:
    program: ExportedProgram
    vpu: VpuProgram
    image: torch.Tensor


@cache
def case(name: str) -> Case:
    model = load_model(name)
    generator = torch.Generator().manual_seed(7)
    images = [torch.randn(1, 3, SIZE, SIZE, generator=generator) for _ in range(3)]
    inputs = (images[0],)
    program = torch.export.export(quantize(model, inputs, [(i,) for i in images]), inputs)
    vpu, _ = lower_whole(program)
    return Case(program, vpu, torch.randn(1, 3, SIZE, SIZE, generator=generator))


@pytest.mark.parametrize("name", MODELS)
def test_is_one_subgraph_with_nothing_on_the_cpu(name: str) -> None:
    plan = make_plan(case(name).program)
    assert plan.reasons == {}
    assert len(plan.subgraphs) == 1


@pytest.mark.parametrize("name", MODELS)
def test_every_unit_is_within_one_lsb_of_the_qdq_graph(name: str) -> None:
    error, where = worst_unit_error(case(name).program, (case(name).image,))
    assert error <= 1, where


@pytest.mark.parametrize("name", MODELS)
def test_end_to_end_sqnr_against_the_qdq_graph_is_at_least_30_db(name: str) -> None:
    c = case(name)
    [actual] = Reference(c.vpu).run([c.image.numpy()])
    with torch.no_grad():
        expected = c.program.module()(c.image)
    assert sqnr_db(expected, actual) >= 30


@pytest.mark.parametrize("isa", available_isas(), ids=lambda isa: isa.name)
@pytest.mark.parametrize("name", MODELS)
def test_the_interpreter_equals_the_reference_bit_for_bit(name: str, isa) -> None:  # type: ignore[no-untyped-def]
    if not isa.available:
        pytest.skip(f"{isa.name}: {isa.reason}")
    c = case(name)
    reference = Reference(c.vpu)
    expected = reference.run([c.image.numpy()])
    interpreter = VpuInterpreter(serialize(c.vpu), isa=isa.name, threads=2)
    outputs, intermediates = interpreter.run_with_intermediates(c.image.numpy())
    for step, computed, wanted in zip(c.vpu.steps, intermediates, reference.computed, strict=True):
        np.testing.assert_array_equal(computed, wanted, err_msg=step.name)
    np.testing.assert_array_equal(outputs[0], expected[0])
