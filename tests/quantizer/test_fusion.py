"""Which ops become one unit, with nothing quantized between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch._ops import OpOverload

from executorch_vpu import VPU_OPS
from executorch_vpu.backend.table import Link

from .graphs import convert, cpu_reasons, observer_sites, prepare, quantize, unit_names
from .nets import Applied, conv, warmed_up

aten = torch.ops.aten
ACTIVATIONS = [op for op, family in VPU_OPS.items() if family.link is Link.ACTIVATION]
WEIGHTED = [op for op, family in VPU_OPS.items() if Link.BATCH_NORM in family.links]


def activation(op: OpOverload) -> Callable[[Tensor], Tensor]:
    """A call of `op`, with bounds wherever it takes any."""
    bounds = {"min": -0.4, "max": 0.6, "min_val": -0.4, "max_val": 0.6}
    taken = {a.name: bounds[a.name] for a in op._schema.arguments if a.name in bounds}
    return lambda x: op(x, **taken)


def weighted(op: OpOverload) -> tuple[nn.Module, nn.Module, Tensor]:
    """A layer that calls `op` and keeps the shape of its input, a batch norm, and that input."""
    if op is aten.linear.default:
        return nn.Linear(6, 6), nn.BatchNorm1d(6), torch.randn(5, 6)
    rank = int(name_of(op).removeprefix("conv").removesuffix("d"))
    layer = (nn.Conv1d, nn.Conv2d)[rank - 1]
    norm = (nn.BatchNorm1d, nn.BatchNorm2d)[rank - 1]
    padding = "same" if op._overloadname == "padding" else 1
    return layer(6, 6, 3, padding=padding), norm(6), torch.randn(2, 6, *(7, 5)[:rank])


def name_of(op: OpOverload) -> str:
    return op._schema.name.removeprefix("aten::").rstrip("_")


@pytest.mark.parametrize("add", ["none", "left", "right", "in place"])
@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("op", WEIGHTED, ids=str)
def test_weighted_op_fuses_batch_norm_add_and_relu(
    op: OpOverload, batch_norm: bool, add: str
) -> None:
    layer, norm, x = weighted(op)

    def forward(layer: nn.Module, norm: nn.Module, x: Tensor, residual: Tensor) -> Tensor:
        y = norm(layer(x))
        if add == "in place":
            y += residual
        else:
            y = {"none": lambda: y, "left": lambda: y + residual, "right": lambda: residual + y}[
                add
            ]()
        return torch.relu(y)

    model = warmed_up(Applied(forward, layer, norm if batch_norm else nn.Identity()))
    prepared = prepare(model, (x, torch.randn_like(x)))
    fused = [name_of(op), *(["add_" if add == "in place" else "add"] if add != "none" else [])]
    residual = [f"inputs_1 -> {fused[1]}"] if add != "none" else []
    assert observer_sites(prepared) == [f"inputs_0 -> {fused[0]}", *residual, "relu -> output"]


@pytest.mark.parametrize("op", ACTIVATIONS, ids=str)
def test_every_clamp_fuses_behind_a_residual(op: OpOverload) -> None:
    inputs = (torch.randn(1, 4, 5, 6), torch.randn(1, 4, 5, 6))
    act = activation(op)
    model = Applied(lambda c, x, r: act(r + c(x)), conv())
    assert unit_names(quantize(model, inputs)) == [f"conv2d+add+{name_of(op)}"]


@pytest.mark.parametrize("op", ACTIVATIONS, ids=str)
def test_a_clamp_that_follows_no_such_op_is_a_unit(op: OpOverload) -> None:
    act = activation(op)
    prepared = prepare(Applied(lambda x: act(torch.sigmoid(x))), (torch.randn(3, 4),))
    name = name_of(op) + "_" * op._schema.name.endswith("_")
    assert observer_sites(prepared) == [
        "inputs_0 -> sigmoid",
        f"sigmoid -> {name}",
        f"{name} -> output",
    ]


IMAGE = (torch.randn(2, 4, 6, 5),)


def units_of(forward: Callable[..., object], *layers: nn.Module) -> list[str]:
    return unit_names(quantize(Applied(forward, *layers), IMAGE))


def test_of_two_convs_in_one_add_the_later_fuses_it() -> None:
    units = units_of(lambda a, b, x: torch.relu(a(x) + b(x)), conv(), conv())
    assert units == ["conv2d", "conv2d+add+relu"]


def test_a_conv_whose_output_is_read_twice_is_not_fused() -> None:
    units = units_of(lambda c, x: (y := c(x), torch.relu(y) + torch.sigmoid(y))[1], conv())
    assert units == ["conv2d", "relu", "sigmoid", "add"]


def test_a_conv_that_is_also_an_output_is_not_fused() -> None:
    units = units_of(lambda c, x: (y := c(x), (torch.relu(y), y))[1], conv())
    assert units == ["conv2d", "relu"]


def test_a_tensor_added_to_itself() -> None:
    assert units_of(lambda c, x: (y := c(x), torch.relu(y + y))[1], conv()) == [
        "conv2d",
        "add+relu",
    ]


def test_a_broadcast_add_is_not_fused() -> None:
    units = units_of(lambda c, x: torch.relu(c(x) + x[:, :, :1, :1]), conv())
    assert "add+relu" in units and "conv2d" in units


@pytest.mark.parametrize(
    "function", [lambda x: x + 2.5, lambda x: 1 - x, lambda x: x * -0.5, lambda x: x - 3]
)
def test_arithmetic_with_a_number_is_quantized(function: Callable[[Tensor], Tensor]) -> None:
    quantized = quantize(Applied(function), IMAGE)
    assert len(unit_names(quantized)) == 1 and not cpu_reasons(quantized)


def test_a_parameter_as_operand_is_quantized_once() -> None:
    model = Applied(lambda p, x: x * p.weight, nn.Linear(5, 4 * 6))
    model.layers[0].weight = nn.Parameter(torch.rand(1, 4, 1, 1) + 1)
    prepared = prepare(model, IMAGE)
    assert observer_sites(prepared) == ["inputs_0 -> mul", "mul -> output"]
    quantized = convert(prepared, IMAGE)
    assert unit_names(quantized) == ["mul"]
    frozen = [tensor.dtype for _, tensor in quantized.named_buffers() if tensor.numel() == 4]
    assert torch.int8 in frozen


@pytest.mark.parametrize("where", ["conv and relu", "conv and add"])
def test_dropout_in_eval_mode_does_not_stand_between(where: str) -> None:
    def forward(layer: nn.Module, dropout: nn.Module, x: Tensor) -> Tensor:
        if where == "conv and relu":
            return torch.relu(dropout(layer(x)))
        return torch.relu(x + dropout(layer(x)))

    expected = "conv2d+relu" if where == "conv and relu" else "conv2d+add+relu"
    for dropout in (nn.Dropout(), nn.Dropout2d(inplace=True), nn.AlphaDropout()):
        assert units_of(forward, conv(), dropout) == [expected]


def test_in_place_forms_give_the_same_numbers_as_plain_forms() -> None:
    layers = (conv(), conv(), nn.BatchNorm2d(4))

    def plain(a: nn.Module, b: nn.Module, norm: nn.Module, x: Tensor) -> Tensor:
        y = torch.relu(norm(a(x)))
        z = torch.nn.functional.relu6(b(y) + x)
        return torch.nn.functional.hardtanh(z - y, -0.5, 0.5)

    def in_place(a: nn.Module, b: nn.Module, norm: nn.Module, x: Tensor) -> Tensor:
        y = torch.relu_(norm(a(x)))
        z = b(y)
        z += x
        z = torch.nn.functional.relu6(z, inplace=True)
        z -= y
        return torch.nn.functional.hardtanh(z, -0.5, 0.5, inplace=True)

    models = [warmed_up(Applied(f, *layers)) for f in (plain, in_place)]
    torch.manual_seed(0)
    norm = layers[2]
    statistics = {name: value.clone() for name, value in norm.state_dict().items()}
    results, names = [], []
    for model in models:
        norm.load_state_dict(statistics)
        quantized = quantize(model, IMAGE)
        results.append(quantized(*IMAGE))
        names.append(unit_names(quantized))
    assert names[0] == names[1] == ["conv2d+relu", "conv2d+add+relu6", "sub+hardtanh"]
    assert torch.equal(*results)
