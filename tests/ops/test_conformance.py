"""Every call in samples.py: float Q/DQ graph, integer reference and interpreter agree."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.export import ExportedProgram
from torchao.quantization.pt2e import (
    MinMaxObserver,
    PerChannelMinMaxObserver,
    quantize_pt2e,
)

from executorch_vpu import VPU_OPS
from executorch_vpu.backend.namespace import aten_target
from executorch_vpu.backend.program import VpuProgram
from executorch_vpu.partitioner.plan import Plan
from executorch_vpu.quantizer import QuantizationConfig

from ..support.bits import ISAS, assert_same_bits
from ..support.pipeline import lower_whole, quantize, worst_unit_error
from .samples import SAMPLES, Sample

MIN_MAX = QuantizationConfig(MinMaxObserver, PerChannelMinMaxObserver)  # the fastest


class Lowered(NamedTuple):
    inputs: tuple[torch.Tensor, ...]
    quantized: ExportedProgram
    vpu: VpuProgram
    plan: Plan


@functools.cache
def lowered(sample: Sample, channels_last: bool) -> Lowered:
    inputs = sample.inputs(channels_last)
    with pytest.MonkeyPatch.context() as patch:
        # For a batch norm of its own, convert_pt2e looks a long time for what QAT would have left.
        patch.setattr(quantize_pt2e, "_fold_conv_bn_qat", lambda model: model)
        model = quantize(sample.model, inputs, config=MIN_MAX)
    quantized = torch.export.export(model, inputs)
    return Lowered(inputs, quantized, *lower_whole(quantized))


every_case = pytest.mark.parametrize(
    ("sample", "channels_last"),
    [
        pytest.param(sample, last, id=f"{sample.name} {'channels last' if last else ''}")
        for sample in SAMPLES
        for last in (False, True)
        if not last or any(len(shape) == 4 for shape in sample.shapes)
    ],
)


def test_every_overload_of_the_table_has_a_sample() -> None:
    sampled = {sample.target for sample in SAMPLES}
    assert [str(op) for op in VPU_OPS if op not in sampled] == []


def test_sample_names_are_unique() -> None:
    names = [sample.name for sample in SAMPLES]
    assert [name for name in names if names.count(name) > 1] == []


@every_case
def test_units_are_within_their_bound_of_the_float_graph(
    sample: Sample, channels_last: bool
) -> None:
    case = lowered(sample, channels_last)
    called = {aten_target(node) for node in case.plan.ops}
    # The quantizer may take out what changes nothing; test_identity.py covers that.
    assert sample.target in called or VPU_OPS[sample.target].transparent
    lsb, where = worst_unit_error(case.quantized, case.inputs)
    assert lsb <= sample.lsb, where


@pytest.mark.parametrize("isa", ISAS)
@every_case
def test_interpreter_equals_reference(sample: Sample, channels_last: bool, isa: str) -> None:
    case = lowered(sample, channels_last)
    for inputs in (case.inputs, _extreme(case.inputs)):
        assert_same_bits(case.vpu, [x.numpy() for x in inputs], [isa])


def test_channels_last_inputs_are_read_as_they_lie() -> None:
    sample = next(s for s in SAMPLES if s.shapes == ((2, 3, 9, 7),))
    assert lowered(sample, True).vpu.inputs[0].dim_order == (0, 2, 3, 1)
    assert lowered(sample, False).vpu.inputs[0].dim_order == (0, 1, 2, 3)


def _extreme(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Far out of range, with infinities, NaN, tiny and negative zero among them."""
    special = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, -0.0], np.float32)
    rng = np.random.default_rng(7)

    def mixed(x: torch.Tensor) -> torch.Tensor:
        values: NDArray = (x * 10).numpy()
        chosen = rng.random(values.shape) < 0.2
        result = torch.empty_like(x)
        result.copy_(torch.from_numpy(np.where(chosen, rng.choice(special, values.shape), values)))
        return result

    return tuple(map(mixed, inputs))
