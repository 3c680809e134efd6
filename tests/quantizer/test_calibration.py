"""What is wrong with a calibration is said, with the tensor, its module and a remedy."""

from __future__ import annotations

import copy
import math
import warnings

import pytest
import torch
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

from executorch_vpu import check_calibration, quantize
from executorch_vpu.backend.units import is_quantize

from .graphs import prepare
from .nets import Applied

IMAGE = torch.randn(1, 3, 8, 8)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()


def test_an_empty_calibration_is_refused() -> None:
    with pytest.raises(ValueError, match="calibration has no batch"):
        quantize(network(), (IMAGE,), iter(()))


def test_a_model_in_training_mode_is_refused() -> None:
    with pytest.raises(ValueError, match=r"call model\.eval\(\)"):
        quantize(network().train(), (IMAGE,), [IMAGE])


def test_tensors_that_were_never_observed_are_named() -> None:
    prepared = prepare(network(), (IMAGE,))
    problems = check_calibration(prepared)
    assert len(problems) == 3
    assert "the input input_1 was never observed" in problems[0]
    assert "linear (in module 3) was never observed" in problems[2]
    with pytest.warns(UserWarning, match="linear .in module 3. was never observed"):
        convert_pt2e(prepared)


def test_a_good_calibration_is_silent() -> None:
    prepared = prepare(network(), (IMAGE,))
    prepared(IMAGE)
    assert check_calibration(prepared) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        quantize(network(), (IMAGE,), [(IMAGE,), [IMAGE * 2]])


def test_calibration_survives_copies_and_saved_states() -> None:
    prepared = prepare(network(), (IMAGE,))
    copied = copy.deepcopy(prepared)
    copied(IMAGE)
    assert check_calibration(copied) == [] and len(check_calibration(prepared)) == 3
    prepared.load_state_dict(copied.state_dict())
    assert check_calibration(prepared) == []
    assert torch.equal(convert_pt2e(copied)(IMAGE), convert_pt2e(prepared)(IMAGE))


@pytest.mark.parametrize(("factor", "words"), [(1e30, "reaches"), (1e-30, "stays below")])
def test_ranges_that_int8_cannot_hold_are_named(factor: float, words: str) -> None:
    with pytest.warns(UserWarning, match=f"the input input_1 {words} .*e[+-](30|29)"):
        quantize(network(), (IMAGE,), [IMAGE * factor])


def test_a_nan_in_the_calibration_is_refused() -> None:
    broken = IMAGE.clone()
    broken[0, 1, 2, 3] = math.nan
    with pytest.raises(ValueError, match="the input input_1 holds NaN"):
        quantize(network(), (IMAGE,), [IMAGE, broken])


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e30])
def test_what_no_range_can_hold_is_warned_of_and_left_out(value: float) -> None:
    broken = IMAGE.clone()
    broken[0, 1, 2, 3] = value
    with pytest.warns(UserWarning, match=f"the input input_1 holds {value:.3g}".replace("+", ".")):
        quantized = quantize(
            nn.Sequential(nn.Conv2d(3, 4, 1)).eval(), (IMAGE,), [IMAGE, broken], progress=False
        )
    [image] = quantized.graph.find_nodes(op="placeholder")
    [quantize_image] = [node for node in image.users if is_quantize(node)]
    scale = quantize_image.args[1]
    assert scale < 10 / 255


def test_a_layer_that_computes_only_infinity_is_named() -> None:
    class Overflowing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x).square() * 1e38 * 1e38

    with pytest.raises(ValueError, match="mul holds nothing but infinities"):
        quantize(Overflowing().eval(), (IMAGE,), [IMAGE * 1e3])


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["0.weight", "3.bias"])
def test_parameters_that_are_not_finite_are_named(name: str, value: float) -> None:
    model = network()
    with torch.no_grad():
        model.get_parameter(name).flatten()[0] = value
    with pytest.raises(ValueError, match=rf"{name} holds NaN or infinity"):
        quantize(model, (IMAGE,), [IMAGE])


def test_a_model_of_which_nothing_is_quantized_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"none of the 2 ops: not in the op table"):
        quantize(Applied(lambda x: torch.erf(x).cumsum(-1)).eval(), (IMAGE,), [IMAGE])


def test_state_is_as_before_calibration() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1)
            self.calls: torch.Tensor
            self.register_buffer("calls", torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return torch.relu(self.conv(x)) + self.calls.reshape(1, 1, 1, 1)

    model = Counting().eval()
    quantized = quantize(model, (IMAGE,), [IMAGE] * 3)
    assert quantized.calls.item() == 1 and model.calls.item() == 1
