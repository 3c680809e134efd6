"""What the VPU does not run stays on the CPU, with the reason in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from executorch_vpu.backend.inplace import in_place_hazards
from executorch_vpu.backend.numerics import QParams
from executorch_vpu.partitioner.plan import make_plan

from ..support.handmade import Function, Quantized, Stage, Weighted, exported

aten = torch.ops.aten
UNIT = QParams(1.0, 0)


def reasons(program: ExportedProgram) -> list[str]:
    return list(make_plan(program).reasons.values())


def image(*shape: int) -> Tensor:
    return torch.randn(shape or (1, 4, 6, 6))


REFUSED: list[tuple[str, Function, tuple[Tensor, ...]]] = [
    (
        "its input has rank 3: unbatched images are not supported",
        lambda x: F.conv2d(x, torch.ones(5, 4, 3, 3)),
        (image(4, 6, 6),),
    ),
    (
        "alpha is 3; two tensors are added with alpha 1 only",
        lambda x, y: torch.add(x, y, alpha=3),
        (image(), image()),
    ),
    (
        "it divides by a tensor; only division by a number is supported",
        torch.div,
        (image(), torch.rand(4, 6, 6) + 1),
    ),
    (
        "its bounds are out of order: min 2.0 > max 1.0",
        lambda x: torch.clamp(x, 2.0, 1.0),
        (image(),),
    ),
    ("has rank 1; the least is 2", torch.matmul, (image(3, 5), image(5))),
    (
        "it sums 33026 products; the int32 accumulator is proven to hold 33025",
        torch.matmul,
        (torch.zeros(1, 33026), torch.zeros(33026, 1)),
    ),
    (
        "its input has rank 3: unbatched images are not supported",
        lambda x: F.max_pool2d(x, 2),
        (image(4, 6, 6),),
    ),
    (
        "one of its windows lies wholly in the padding",
        lambda x: F.max_pool2d(x, 2, 1, 1, 3),
        (image(1, 1, 2, 2),),
    ),
    (
        "its input has rank 3: unbatched images are not supported",
        lambda x: F.adaptive_avg_pool2d(x, 2),
        (image(4, 6, 6),),
    ),
    (
        "its divisor is -2; the limits are 1 and 2147483647",
        lambda x: F.avg_pool2d(x, 2, divisor_override=-2),
        (image(),),
    ),
    (
        "its window has 9000000 cells; the int32 sum is proven to hold 8421504",
        lambda x: F.avg_pool2d(x, 3000),
        (torch.zeros(1, 1, 3000, 3000),),
    ),
    (
        "it sums 9000000 elements; the int32 sum is proven to hold 8421504",
        torch.mean,
        (torch.zeros(3000, 3000),),
    ),
    (
        "its mode is 'reflect'; only 'constant' is supported",
        lambda x: aten.pad.default(x, (1, 1), "reflect"),
        (image(2, 5),),
    ),
    ("its input has no dimension", lambda x: torch.softmax(x, 0), (torch.tensor(1.0),)),
    (
        "it normalizes by the batch's own statistics (training=True)",
        lambda x: F.batch_norm(x, None, None, training=True),
        (image(),),
    ),
    (
        "has 9 dimensions; the limit is 8",
        torch.tanh,
        (image(*[1] * 9),),
    ),
    ("is torch.float64, not torch.float32", lambda x: torch.tanh(x.double()).float(), (image(),)),
    ("not in the op table", torch.erf, (image(),)),
]


@pytest.mark.parametrize(("reason", "function", "inputs"), REFUSED)
def test_a_refusal_gives_its_reason(
    reason: str, function: Function, inputs: tuple[Tensor, ...]
) -> None:
    given = reasons(exported([function], inputs))
    assert any(reason in words for words in given), given


def test_a_softmax_too_long_for_its_output_scale_is_refused() -> None:
    x, q = torch.randn(1, 3000), QParams(1 / 4096, -128)
    stages = [Stage(lambda x: torch.softmax(x, 1), q)]
    program = torch.export.export(Quantized([UNIT], stages), (x,))
    assert reasons(program) == [
        "it sums 3000 exponentials; with its output scale the limit is 2048"
    ]


@pytest.mark.parametrize(
    ("bias", "scale", "output", "reason"),
    [
        (3e9, 1.0, 1.0, "output channel 1 could reach 3000032385 in the int32 accumulator"),
        (0.3, 1.0, 1e-2, "the int32 bias of output channel 1 would be off by 30 output steps"),
        (0.0, 1e6, 1e-13, "its output scale is too small: multiplier 1e+19"),
    ],
)
def test_weights_that_integers_cannot_compute_are_refused(
    bias: float, scale: float, output: float, reason: str
) -> None:
    weight = torch.tensor([[0], [127]], dtype=torch.int8)
    layer = Weighted(F.linear, weight, torch.tensor([scale] * 2), torch.tensor([0.0, bias]))
    quantized = Quantized([UNIT], [Stage(layer, QParams(max(output, 1e-9), 0))])
    if output < 1e-9:  # the scale alone must stay in range
        quantized = Quantized([QParams(1e4, 0)], [Stage(layer, QParams(1e-9, 0))])
    given = reasons(torch.export.export(quantized, (torch.ones(1, 1),)))
    assert len(given) == 1 and reason in given[0], given


def test_a_weight_of_minus_128_is_refused() -> None:
    weight = torch.tensor([[-128], [127]], dtype=torch.int8)
    layer = Weighted(F.linear, weight, torch.ones(2), None)
    program = torch.export.export(Quantized([UNIT], [Stage(layer, UNIT)]), (torch.ones(1, 1),))
    assert reasons(program) == ["one of its weights is -128; symmetric int8 starts at -127"]


def test_a_channel_without_weights_may_have_any_bias() -> None:
    weight = torch.tensor([[0], [127]], dtype=torch.int8)
    layer = Weighted(F.linear, weight, torch.tensor([1e-7, 0.1]), torch.tensor([9e3, 0.0]))
    quantized = Quantized([QParams(1e-3, 0)], [Stage(layer, QParams(100.0, 0))])
    assert reasons(torch.export.export(quantized, (torch.ones(1, 1),))) == []


def test_a_batch_norm_in_training_mode_is_not_taken_for_a_folded_one() -> None:
    def block(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.batch_norm(F.conv2d(x, weight, bias), None, None, training=True)

    weight = torch.ones(2, 4, 1, 1, dtype=torch.int8)
    program = exported([Weighted(block, weight, torch.ones(2), None)], (image(),))
    assert "batch_norm behind it is in training mode: quantization has not folded it" in reasons(
        program
    )


def test_a_batch_norm_with_computed_statistics_is_refused() -> None:
    def normalized(x: Tensor, mean: Tensor) -> Tensor:
        return F.batch_norm(x, mean, torch.ones(4), training=False)

    program = exported([normalized], (image(), torch.zeros(4)))
    assert "its running_mean is computed by the model, not a constant" in reasons(program)


def test_a_dynamic_shape_is_a_reason() -> None:
    model = Quantized([UNIT], [Stage(torch.tanh, UNIT)])
    shapes = {"xs": ({0: Dim("n", min=2, max=9)},)}
    program = torch.export.export(model, (torch.randn(4, 3),), dynamic_shapes=shapes)
    assert any("dynamic shape" in words for words in reasons(program))


def _written_input(x: Tensor) -> Tensor:
    return x.view(-1).mul_(2.0)


def _through_a_view(x: Tensor) -> Tensor:
    y = torch.tanh(x)
    y[:, :2].mul_(2.0)
    return y


def _read_later(x: Tensor) -> Tensor:
    y = torch.tanh(x)
    part = y[:, :3]
    return y.relu_().sum(1, keepdim=True) + torch.sigmoid(part)


def _read_before(x: Tensor) -> Tensor:
    y = torch.tanh(x)
    z = torch.sigmoid(y)
    return z + y.relu_()


def _in_a_row(x: Tensor) -> Tensor:
    y = torch.tanh(x).relu_().mul_(0.5)
    return y + torch.sigmoid(y)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_written_input, "which outlives the call"),
        (_through_a_view, "later"),
        (_read_later, "later"),
        (_read_before, None),
        (_in_a_row, None),
    ],
)
def test_writing_in_place_is_refused_where_others_would_see_it(
    function: Callable[[Tensor], Tensor], reason: str | None
) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    graph = torch.export.export(Model(), (torch.randn(2, 6),)).graph
    hazards = in_place_hazards(graph)
    if reason is None:
        assert hazards == {}
    else:
        assert hazards and all(reason in words for words in hazards.values()), hazards
