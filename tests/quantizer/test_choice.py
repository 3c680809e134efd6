"""What is left in float, and that it is said why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e
from torchao.quantization.pt2e.quantizer import ComposableQuantizer

from executorch_vpu import VpuQuantizer

from ..models import SEED_OPS, OpZooNet, TinyConvNet
from .graphs import Inputs, convert, cpu_reasons, export, observer_sites, prepare, quantize
from .nets import Applied, conv, warmed_up

aten = torch.ops.aten
IMAGE = (torch.randn(1, 3, 16, 16),)


def skipped(
    model: nn.Module, inputs: Inputs, quantizer: VpuQuantizer | None = None
) -> dict[str, str]:
    """The reasons, by node, and a check that the op names go with them."""
    quantizer = quantizer or VpuQuantizer()
    prepared = prepare(model, inputs, quantizer)
    calls = {node.name: str(node.target) for node in prepared.graph.nodes}
    assert all(calls[entry.node] == entry.op for entry in quantizer.skipped)
    return {entry.node: entry.reason for entry in quantizer.skipped}


@pytest.mark.parametrize("model", [TinyConvNet, OpZooNet])
def test_nothing_is_skipped_with_the_full_table(model: Callable[[], nn.Module]) -> None:
    assert skipped(warmed_up(model()), IMAGE) == {}


def test_a_smaller_table_leaves_the_other_ops_in_float() -> None:
    quantizer = VpuQuantizer(SEED_OPS)
    left_out = skipped(OpZooNet(), IMAGE, quantizer)
    assert [entry.op.split(".")[1] for entry in quantizer.skipped] == [
        "sigmoid", "leaky_relu", "mul", "avg_pool2d", "mean", "matmul", "softmax",
    ]  # fmt: skip
    assert all(reason.startswith("left out") for reason in left_out.values())


def test_the_table_may_be_given_by_a_generator() -> None:
    quantizer = VpuQuantizer(op for op in SEED_OPS)
    assert [*skipped(warmed_up(TinyConvNet()), IMAGE, quantizer)] == ["adaptive_avg_pool2d"]


def test_an_unknown_overload_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not in the op table: aten\.erfinv\.default"):
        VpuQuantizer([aten.conv2d.default, aten.erfinv.default])


def test_a_second_run_forgets_what_the_first_skipped() -> None:
    quantizer = VpuQuantizer()
    assert skipped(Applied(torch.erfinv), (torch.rand(3),), quantizer)
    assert not skipped(Applied(torch.sigmoid), (torch.rand(3),), quantizer)


def test_ops_outside_the_table_are_named() -> None:
    assert skipped(Applied(lambda x: torch.erfinv(x).relu()), (torch.rand(3),)) == {
        "erfinv": "not in the op table"
    }


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.add(x, x.relu(), alpha=2), "alpha is 2"),
        (lambda x: x.double().relu(), "torch.float64, not torch.float32"),
        (lambda x: x[:, :0].relu(), "is empty: shape"),
        (lambda x: nn.functional.conv2d(x, x[:, :, :3, :3]), "computed from the model's inputs"),
        (lambda x: nn.functional.conv2d(x, torch.ones(2, 3, 1, 1), x[0, 0, 0, :2]), "its bias"),
        (lambda x: (y := x.relu(), y[:, :2].mul_(3), y)[2], "writes in place to the memory of"),
        (
            lambda x: (y := x + 1, v := y[:, 1:], y.mul_(3), v * 2)[3],
            "writes in place to the memory of",
        ),
    ],
)
def test_a_call_that_is_not_supported_is_skipped_with_its_reason(
    function: Callable[[Tensor], object], reason: str
) -> None:
    assert any(reason in why for why in skipped(Applied(function), IMAGE).values())


def test_writing_through_a_view_stays_right() -> None:
    def forward(c: nn.Module, x: Tensor) -> Tensor:
        y = c(x)
        y[:, :4].mul_(3)
        return torch.relu(y)

    model, inputs = Applied(forward, conv(4, 8)), (torch.randn(2, 4, 5, 5),)
    expected = model(*inputs)
    assert (quantize(model, inputs)(*inputs) - expected).abs().max() < 0.02 * expected.max()


def test_shapes_that_depend_on_data_stay_float_with_a_reason() -> None:
    model = Applied(lambda c, x: torch.relu(c(x[x[:, 0, 0, 0] > 0])), conv())
    exported = torch.export.export(model, (torch.randn(3, 4, 5, 5),)).module()
    quantizer = VpuQuantizer()
    prepared = prepare_pt2e(exported, quantizer)
    assert observer_sites(prepared) == []
    reasons = {entry.node: entry.reason for entry in quantizer.skipped}
    assert all("has the dynamic shape [u0, 4" in reasons[node] for node in ("conv2d", "relu"))


def test_integer_arithmetic_is_none_of_its_business() -> None:
    model = Applied(lambda x, i: torch.relu(x) * (i + 1).sum())
    left_out = skipped(model, (torch.randn(3), torch.arange(3)))
    assert [*left_out] == ["mul"] and "torch.int64" in left_out["mul"]


def test_reasons_on_the_quantized_graph_agree() -> None:
    model, inputs = Applied(lambda c, x: torch.erfinv(torch.relu(c(x)))), (torch.rand(2, 4, 5, 5),)
    model.layers.append(conv())
    quantizer = VpuQuantizer()
    quantized = quantize(model, inputs, quantizer)
    assert cpu_reasons(quantized) == {entry.node: entry.reason for entry in quantizer.skipped}


def test_what_another_quantizer_annotated_is_left_to_it() -> None:
    first, second = VpuQuantizer([aten.conv2d.default, aten.relu.default]), VpuQuantizer()
    model = Applied(lambda c, x: torch.sigmoid(torch.relu(c(x))), conv())
    inputs = (torch.randn(1, 4, 5, 5),)
    prepared = prepare_pt2e(export(model, inputs), ComposableQuantizer([first, second]))
    assert observer_sites(prepared) == [
        "inputs_0 -> conv2d",
        "relu -> sigmoid",
        "sigmoid -> output",
    ]
    assert not cpu_reasons(convert(prepared, inputs))


def test_a_model_in_training_mode_is_refused() -> None:
    model = nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3)).train()
    with pytest.raises(ValueError, match=r"batch_norm is in training mode. Call model.eval\(\)"):
        prepare_pt2e(export(model, (torch.randn(2, 3, 4, 4),)), VpuQuantizer())


def test_attributes_outside_the_model_are_not_touched() -> None:
    """Exported twice, quantized once: the other graph and the model keep their weights."""
    model = warmed_up(TinyConvNet())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    prepare(model, IMAGE)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
