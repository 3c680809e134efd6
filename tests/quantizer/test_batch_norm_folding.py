"""prepare_pt2e folds batch norms before it asks the quantizer: what that is good for, and where it
goes wrong."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from executorch_vpu import VpuQuantizer
from executorch_vpu.quantizer import protect_batch_norms
from executorch_vpu.quantizer import quantize as vpu_quantize

from ..models import TinyConvNet
from .graphs import (
    export,
    find,
    observer_sites,
    prepare,
    quantize,
    unit_names,
)
from .nets import Applied, ConvBnReLU, ConvReLU, conv, warmed_up

aten = torch.ops.aten
IMAGE = (torch.randn(2, 3, 9, 7),)


def norm() -> nn.BatchNorm2d:
    return nn.BatchNorm2d(4)


def calls(model: torch.fx.GraphModule) -> list[str]:
    return [node.name for node in model.graph.nodes if node.op == "call_function"]


def test_batch_norm_is_gone_after_prepare() -> None:
    model = warmed_up(ConvBnReLU(3, 8))
    assert "batch_norm" in calls(export(model, IMAGE))
    assert calls(prepare(model, IMAGE)) == ["conv2d", "relu"]


def test_folding_is_lossless() -> None:
    model = warmed_up(ConvBnReLU(3, 8))
    torch.testing.assert_close(prepare(model, IMAGE)(*IMAGE), model(*IMAGE), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_folded_weights_are_those_of_the_equations(bias: bool) -> None:
    model = warmed_up(ConvBnReLU(3, 8, bias))
    bn, before = model.bn, model.conv.weight.detach().clone()
    gain = bn.weight / torch.sqrt(bn.running_var + bn.eps)
    weight = before * gain.reshape(-1, 1, 1, 1)  # (1)
    offset = bn.bias + ((model.conv.bias if bias else 0) - bn.running_mean) * gain  # (2)

    prepared = prepare(model, IMAGE)

    folded = prepared.get_parameter("conv.weight")
    torch.testing.assert_close(folded, weight)
    assert (folded - before).abs().max() > 0.01
    name = "conv.bias" if bias else "conv.weight_bias"
    torch.testing.assert_close(prepared.get_parameter(name), offset)


def test_conv_bn_relu_is_annotated_exactly_like_conv_relu() -> None:
    sites = [observer_sites(prepare(m, IMAGE)) for m in (ConvReLU(3, 8), ConvBnReLU(3, 8))]
    assert sites == [["x -> conv2d", "relu -> output"]] * 2


def test_nothing_is_quantized_between_conv_and_relu() -> None:
    quantized = quantize(warmed_up(ConvBnReLU(3, 8)), IMAGE)
    relu = find(quantized.graph, aten.relu.default)
    assert relu.args[0] is find(quantized.graph, aten.conv2d.default)
    assert unit_names(quantized) == ["conv2d+relu"]


def twice(block: nn.Module, other: nn.Module) -> nn.Module:
    return Applied(lambda f, g, x: g(f(x)) + g(f(x * 0.5)), block, other)


def shared_conv(*norms: nn.Module) -> nn.Module:
    return Applied(lambda c, n, m, x: torch.cat([n(c(x)), m(c(x * 2))], 1) * 2, conv(3), *norms)


WRONGLY_FOLDED = {
    "batch norm behind batch norm": lambda: nn.Sequential(conv(3), norm(), norm()),
    "two batch norms behind one conv": lambda: Applied(
        lambda c, n, m, x: (y := c(x), n(y) + m(y))[1], conv(3), norm(), norm()
    ),
    "conv also read by an add": lambda: Applied(
        lambda c, n, x: (y := c(x), torch.relu(n(y)) + y)[1], conv(3), norm()
    ),
    "conv also an output": lambda: Applied(
        lambda c, n, x: (y := c(x), (n(y), y))[1], conv(3), norm()
    ),
    "linear also read by a multiplication": lambda: Applied(
        lambda f, n, x: (y := f(x.flatten(1)), n(y) * y)[1],
        nn.Linear(3 * 9 * 7, 4),
        nn.BatchNorm1d(4),
    ),
    "one conv behind two batch norms": lambda: shared_conv(norm(), norm()),
    "one conv with and without": lambda: shared_conv(norm(), nn.Identity()),
}
REFUSED = {
    "grouped transposed conv": lambda: nn.Sequential(
        conv(3), nn.ConvTranspose2d(4, 4, 3, groups=2), norm()
    ),
    "no running statistics": lambda: nn.Sequential(
        conv(3), nn.BatchNorm2d(4, track_running_stats=False)
    ),
    "weight norm": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(conv(3)), norm()),
    "linear, no affine": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(189, 4), nn.BatchNorm1d(4, affine=False)
    ),
}
RIGHTLY_FOLDED = {
    "conv": lambda: ConvBnReLU(3, 4),
    "no affine": lambda: nn.Sequential(conv(3), nn.BatchNorm2d(4, affine=False)),
    "transposed conv": lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3), norm()),
    "grouped conv": lambda: nn.Sequential(conv(3), nn.Conv2d(4, 4, 3, groups=4), norm()),
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(189, 4), nn.BatchNorm1d(4)),
    "one block twice": lambda: twice(conv(3), norm()),
    "residual network": TinyConvNet,
}


def as_float(outputs: object) -> list[torch.Tensor]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def largest_error(model: nn.Module, other: torch.fx.GraphModule) -> float:
    with torch.no_grad():
        pairs = zip(as_float(model(*IMAGE)), as_float(other(*IMAGE)), strict=True)
        return max(float((a - b).abs().max()) for a, b in pairs)


@pytest.mark.parametrize("name", WRONGLY_FOLDED)
def test_protection_is_needed(name: str) -> None:
    model = warmed_up(WRONGLY_FOLDED[name]())
    assert largest_error(model, prepare(model, IMAGE)) > 0.1


@pytest.mark.parametrize("name", WRONGLY_FOLDED)
def test_protected_models_compute_the_same_and_are_wholly_quantized(name: str) -> None:
    model, quantizer = warmed_up(WRONGLY_FOLDED[name]()), VpuQuantizer()
    prepared = prepare_pt2e(protect_batch_norms(export(model, IMAGE)), quantizer)
    assert largest_error(model, prepared) < 1e-4
    assert not quantizer.skipped


def test_protected_batch_norms_are_quantized_on_their_own() -> None:
    # Not converted here: convert_pt2e takes its time as soon as one batch norm is left.
    model = warmed_up(
        Applied(lambda c, n, m, x: (y := c(x), torch.relu(n(m(y))) + y)[1], conv(3), norm(), norm())
    )
    prepared = prepare_pt2e(protect_batch_norms(export(model, IMAGE)), VpuQuantizer())
    assert observer_sites(prepared) == [
        "inputs_0 -> conv2d",
        "conv2d -> batch_norm, add",
        "batch_norm -> batch_norm_1",
        "relu -> add",
        "add -> output",
    ]


@pytest.mark.parametrize("name", REFUSED)
def test_what_torchao_refuses_works_under_protection(name: str) -> None:
    model = warmed_up(REFUSED[name]())
    with pytest.raises(Exception):  # noqa: B017  torchao's own, of several kinds
        prepare(model, IMAGE)
    prepared = prepare_pt2e(protect_batch_norms(export(model, IMAGE)), VpuQuantizer())
    assert largest_error(model, prepared) < 1e-4
    vpu_quantize(model, IMAGE, [IMAGE], progress=False)


@pytest.mark.parametrize("name", RIGHTLY_FOLDED)
def test_protection_leaves_other_models_as_they_are(name: str) -> None:
    exported = export(warmed_up(RIGHTLY_FOLDED[name]()), IMAGE)
    before = calls(exported)
    assert calls(protect_batch_norms(exported)) == before


@pytest.mark.parametrize("seed", range(12))
def test_protected_random_networks_compute_the_same(seed: int) -> None:
    """Convs and batch norms, used once or several times, wired at random."""
    choose = random.Random(seed)
    steps = []  # (which layer, what it reads, what is added instead if there is no such layer)
    for i in range(12):
        latest = i if choose.random() < 0.7 else choose.randint(0, i)  # mostly a chain
        steps.append((choose.randint(0, 7), latest, choose.randint(0, i)))

    def forward(*inputs: nn.Module) -> torch.Tensor:
        *layers, image = inputs
        values = [image]
        for which, a, b in steps:
            fresh = layers[which](values[a]) if which < len(layers) else values[a] + values[b]
            values.append(fresh)
        return values[-1] + values[-2] + values[-4]

    layers = [conv(), conv(), conv(bias=False), norm(), norm(), norm()]
    model, image = warmed_up(Applied(forward, *layers)), torch.randn(2, 4, 5, 6)
    prepared = prepare_pt2e(protect_batch_norms(export(model, (image,))), VpuQuantizer())
    with torch.no_grad():
        expected = model(image)
        error = (prepared(image) - expected).abs().max()
    assert error < 1e-4 * expected.abs().max()
