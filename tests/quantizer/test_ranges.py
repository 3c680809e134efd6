"""Which parameters a tensor is quantized with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.pt2e import MinMaxObserver

from executorch_vpu import VpuQuantizer
from executorch_vpu.backend.ops import VPU_OPS
from executorch_vpu.backend.table import OutputRange
from executorch_vpu.backend.units import find_units
from executorch_vpu.quantizer import PTQ, QuantizationConfig

from .graphs import convert, find, observer_sites, parameters_of, prepare, quantize, unit_names
from .nets import Applied, conv

aten = torch.ops.aten


def quantized(function: Callable[..., object], *inputs: Tensor) -> torch.fx.GraphModule:
    return quantize(Applied(function), inputs)


def test_cat_clips_none_of_its_inputs() -> None:
    high, low = torch.rand(1, 2, 3, 3) * 20, -50 + torch.rand(1, 2, 3, 3)
    model = quantized(lambda a, b: torch.cat([a, b], 1) * 2, high, low)
    assert len(set(parameters_of(model, aten.cat.default))) == 3
    step = 70 / 255
    assert (model(high, low) / 2 - torch.cat([high, low], 1)).abs().max() < 1.5 * step


def test_cat_of_one_tensor_with_itself() -> None:
    x = torch.randn(2, 3)
    assert unit_names(quantized(lambda x: torch.cat([x, x, x], 1) * 2, x)) == ["cat", "mul"]


def test_data_movement_shares_its_inputs_parameters_all_along() -> None:
    def forward(c: nn.Module, x: Tensor) -> Tensor:
        y = torch.relu(c(x)).flatten(2).permute(0, 2, 1)[:, 1:]
        return y.unsqueeze(1)

    inputs = (torch.randn(2, 4, 5, 5),)
    model = quantize(Applied(forward, conv()), inputs)
    units = find_units(model.graph, VPU_OPS).units
    assert [unit.chain is None for unit in units] == [False] * 5  # nothing is requantized
    assert len({unit.output_qparams for unit in units}) == 1


def test_max_pool_of_an_input_shares_the_inputs_parameters() -> None:
    model = quantized(lambda x: nn.functional.max_pool2d(x, 2), torch.randn(1, 3, 6, 6))
    before, after = parameters_of(model, aten.max_pool2d.default)
    assert before == after


@pytest.mark.parametrize(
    "family", [f for f in VPU_OPS.families() if f.output_range is OutputRange.FIXED]
)
def test_fixed_parameters_are_used_and_not_quantized_again(family) -> None:
    op = family.targets[0]
    more = [1] if "dim" in {a.name for a in op._schema.arguments} else []
    x = torch.randn(2, 4, 5, 5) * 3
    # Behind it: an op with its own range, one that shares, and one with two inputs.
    model = quantized(lambda x: (y := op(x, *more), (y * 2, y.flatten(1), y + x))[1], x)
    units = find_units(model.graph, VPU_OPS).units
    assert units[0].output_qparams == family.fixed
    assert [unit.name.split(".")[0] for unit in units[1:]] == ["mul", "flatten", "add"]
    assert all(unit.sources[0] is units[0].quantize for unit in units[1:])


def test_weights_are_symmetric_per_output_channel_and_biases_float() -> None:
    layer = conv(4, 6)
    with torch.no_grad():
        layer.weight *= torch.logspace(-2, 1, 6).reshape(6, 1, 1, 1)
    model = quantize(layer, (torch.randn(1, 4, 5, 5),))
    node = find(model.graph, torch.ops.quantized_decomposed.dequantize_per_channel.default)
    weight, scales, zero_points = (model.get_buffer(n.target) for n in node.args[:3])
    assert node.args[3] == 0 and node.args[4:6] == (-127, 127)
    assert weight.dtype == torch.int8 and not zero_points.any()
    assert (weight.flatten(1).abs().max(1).values == 127).all()
    expected = layer.weight.detach().abs().flatten(1).max(1).values / 127
    torch.testing.assert_close(scales.float(), expected)
    bias = find(model.graph, aten.conv2d.default).args[2]
    assert model.get_parameter(bias.target).dtype == torch.float32


def test_a_tensor_read_by_many_is_quantized_once() -> None:
    def forward(c: nn.Module, d: nn.Module, x: Tensor) -> Tensor:
        return torch.cat([c(x), d(x), x + 1, x.flatten(2).unflatten(2, (5, 5))], 1) * 2

    prepared = prepare(Applied(forward, conv(), conv()), (torch.randn(1, 4, 5, 5),))
    of_input = [site for site in observer_sites(prepared) if site.startswith("inputs_0 -> ")]
    assert of_input == ["inputs_0 -> conv2d, conv2d_1, add, flatten"]


@pytest.mark.parametrize("value", [0.0, -3.0])
def test_padding_lies_within_the_range(value: float) -> None:
    x = torch.rand(1, 2, 4, 4) + 1
    model = quantized(lambda x: nn.functional.pad(x, (1, 1, 2, 0), value=value) * 2, x)
    (scale, zero_point), after = parameters_of(model, aten.pad.default)
    assert (scale, zero_point) == after
    assert (-128 - zero_point) * scale <= value + scale


def test_a_tensor_of_zeros_keeps_the_ops_around_it_on_the_vpu() -> None:
    """Its scale must leave their biases precise, and small enough for 32-bit integers."""
    layers = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)
    with torch.no_grad():
        layers[0].bias.fill_(-9)
        layers[1].weight.fill_(1e-3)
        layers[1].bias.fill_(5)
    inputs = (torch.rand(1, 4, 3, 3),)
    model = Applied(lambda a, b, x: b(torch.relu(a(x))), *layers)
    assert unit_names(quantize(model, inputs)) == ["conv2d+relu", "conv2d"]


def test_observers_can_be_chosen() -> None:
    config = QuantizationConfig(activation=MinMaxObserver, weight=PTQ.weight)
    x = torch.cat([torch.rand(10_000), torch.tensor([60.0])])  # an outlier
    model = Applied(lambda x: x.relu())
    by_range = convert(prepare(model, (x,), VpuQuantizer(config=config)), (x,))
    by_error = convert(prepare(model, (x,)), (x,))
    assert parameters_of(by_range, aten.relu.default)[0][0] == pytest.approx(60 / 255)
    assert parameters_of(by_error, aten.relu.default)[0][0] < 60 / 255
