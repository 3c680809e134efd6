"""Quantized at one batch size or several, deployed at another: what is deployed is static, and runs
on the VPU whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn
from torch.export import Dim
from torch.fx import GraphModule
from torch.nn import functional as F
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import executorch_vpu
from executorch_vpu import VpuPartitioner, VpuQuantizer, partition_report
from tests.support.pipeline import delegates, run_pte, sqnr_db

from .nets import Applied, conv

ONE, SOME = torch.randn(1, 4, 6, 5), torch.randn(6, 4, 6, 5)
BATCH = ({0: Dim.DYNAMIC},)


def applied(forward: Callable[..., Tensor], *modules: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return Applied(forward, *modules).eval()


def calibrated(
    model: nn.Module, x: Tensor = SOME, shapes: object = BATCH
) -> tuple[GraphModule, VpuQuantizer]:
    """Quantized step by step, with a dynamic batch."""
    quantizer = VpuQuantizer()
    exported = torch.export.export(model, (x,), dynamic_shapes={"inputs": shapes}).module()
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        prepared(x)
    return convert_pt2e(prepared), quantizer


def skipped(quantizer: VpuQuantizer) -> dict[str, str]:
    return {entry.node: entry.reason for entry in quantizer.skipped}


def run_whole(quantized: GraphModule, *inputs: Tensor) -> Tensor:
    """The output of the program at the sizes of `inputs`, of which nothing is on the CPU."""
    program = torch.export.export(quantized, inputs)
    report = partition_report(program)
    assert report.reasons == {} and len(report.subgraphs) == 1
    edge = to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])
    [output] = run_pte(edge.to_executorch().buffer, inputs)
    return output


def check(quantized: GraphModule, *inputs: Tensor) -> None:
    with torch.no_grad():
        expected = quantized(*inputs)
    assert sqnr_db(expected, run_whole(quantized, *inputs)) > 30


def residual(c: nn.Module, d: nn.Module, x: Tensor) -> Tensor:
    y = torch.relu(c(x))
    return torch.relu(d(y) + y)


def classifier(c: nn.Module, d: nn.Module, linear: nn.Module, x: Tensor) -> Tensor:
    y = F.max_pool2d(residual(c, d, x), 2)
    y = F.avg_pool2d(F.pad(y, (1, 1, 1, 1)), 2, count_include_pad=False)
    y = F.adaptive_avg_pool2d(y, 2).view(y.size(0), -1)
    return torch.softmax(linear(y), 1)


def attention(query: nn.Module, x: Tensor) -> Tensor:
    tokens = x.flatten(2).transpose(1, 2)  # [N, 30, 4]
    q = query(tokens).reshape(x.shape[0] * 2, 15, 4)
    return torch.softmax(q @ q.transpose(1, 2), 2).mean(2)


NETS = {
    "residual": lambda: applied(residual, conv(), conv()),
    "classifier": lambda: applied(classifier, conv(), conv(), nn.Linear(16, 5)),
    "attention": lambda: applied(attention, nn.Linear(4, 4)),
    "flatten": lambda: applied(lambda a, x: a(x.flatten(1)), nn.Linear(120, 7)),
    "parts": lambda: applied(lambda c, x: torch.cat([c(x), x[:, 1:3] * 2], 1).sigmoid(), conv()),
}


@pytest.mark.parametrize("net", NETS)
def test_what_a_dynamic_batch_gave_is_deployed_at_another(net: str) -> None:
    model = NETS[net]()
    quantized, quantizer = calibrated(model)
    assert quantizer.skipped == []
    check(quantized, ONE)
    with torch.no_grad():
        assert sqnr_db(model(SOME), quantized(SOME)) > 20


@pytest.mark.parametrize("net", NETS)
def test_a_dynamic_batch_leaves_the_parameters_as_they_are(net: str) -> None:
    model = NETS[net]()
    quantized, _ = calibrated(model)
    fixed, _ = calibrated(model, shapes=(None,))
    with torch.no_grad():
        assert torch.equal(quantized(SOME), fixed(SOME))


def test_a_size_that_an_op_depends_on_keeps_it_in_float() -> None:
    def mixed(c: nn.Module, x: Tensor) -> Tensor:
        return c(x - torch.relu(c(x)).mean(0, keepdim=True))

    quantized, quantizer = calibrated(applied(mixed, conv()))
    reasons = skipped(quantizer)
    assert list(reasons) == ["mean"]
    assert (
        "it depends on the size of relu along dimension 0, which is dynamic: s" in reasons["mean"]
    )
    check(quantized, ONE)  # known by then, and between quantized tensors


def test_dynamic_images_keep_what_looks_at_them_whole_in_float() -> None:
    shapes = ({2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)
    model = applied(lambda c, x: F.max_pool2d(torch.relu(c(x)), 2).softmax(2), conv())
    quantized, quantizer = calibrated(model, shapes=shapes)
    assert list(skipped(quantizer)) == ["max_pool2d", "softmax"]
    smaller = torch.randn(6, 4, 4, 4)
    program = torch.export.export(quantized, (smaller,))
    assert partition_report(program).summary.vpu_ops == 2  # the convolution and its relu


def test_a_mask_is_no_part_of_a_range_either() -> None:
    """Windows that are put together and taken apart again, as in Swin."""

    def masked(linear: nn.Module, x: Tensor) -> Tensor:
        scores = linear(x.flatten(2))  # [N, 4, 8]
        mask = torch.where(torch.arange(8) < 5, 0.0, -1e9)
        scores = scores.view(x.shape[0] // 2, 2, 4, 8) + mask
        return torch.softmax(scores.view(-1, 4, 8), -1)

    model = applied(masked, nn.Linear(30, 8))
    quantized, quantizer = calibrated(model)
    assert quantizer.skipped == []
    check(quantized, SOME[:4])
    with torch.no_grad():
        assert sqnr_db(model(SOME), quantized(SOME)) > 30


def test_a_dynamic_program_stays_on_the_cpu_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    quantized, _ = calibrated(NETS["classifier"]())
    shapes = ({0: Dim("batch", min=1, max=8)},)
    program = torch.export.export(quantized, (SOME,), dynamic_shapes=shapes)
    report = partition_report(program)
    assert report.summary.vpu_ops == 0
    assert any("dynamic shape" in reason for reason in report.reasons)
    assert any("without dynamic_shapes" in hint for hint in report.hints)
    edge = to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])
    assert "Nothing to delegate" in caplog.text
    assert delegates(edge) == []
    buffer = edge.to_executorch().buffer
    for n in (1, 3, 8):
        x = torch.randn(n, 4, 6, 5)
        with torch.no_grad():
            expected = quantized(x)
        torch.testing.assert_close(run_pte(buffer, (x,))[0], expected, rtol=0, atol=1 / 250)


def test_an_index_that_is_computed_stays_on_the_cpu() -> None:
    def picked(c: nn.Module, x: Tensor) -> Tensor:
        y = torch.relu(c(x))
        return torch.sigmoid(y[:, x[0, :, 0, 0].argmax().item()] * 2)

    quantized, quantizer = calibrated(applied(picked, conv()), shapes=(None,))
    assert "its argument item is computed when the program runs" in skipped(quantizer)["select_3"]
    report = partition_report(quantized, (SOME,))
    assert "its argument item is computed when the program runs" in report.reasons
    assert report.summary.vpu_ops > 0


# quantize(): in one call.


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("sizes", [(6, 3, 1), (1, 6)])
def test_calibration_takes_batches_of_other_sizes(net: str, sizes: tuple[int, ...]) -> None:
    model = NETS[net]()
    batches = [torch.randn(n, 4, 6, 5) for n in sizes]
    check(executorch_vpu.quantize(model, (ONE,), batches), ONE)


def test_calibration_may_be_smaller_than_the_example() -> None:
    quantized = executorch_vpu.quantize(NETS["classifier"](), (SOME,), iter([ONE] * 3))
    check(quantized, SOME)


def test_batches_of_another_size_give_the_same_ranges() -> None:
    model = NETS["classifier"]()
    one_by_one = executorch_vpu.quantize(model, (ONE,), [SOME])
    together = executorch_vpu.quantize(model, (SOME,), [SOME])
    with torch.no_grad():
        assert torch.equal(one_by_one(SOME), together(SOME))


def test_inputs_that_nest_have_their_sizes_too() -> None:
    model = applied(lambda c, pair, scale: torch.relu(c(pair[0]) + pair[1] * scale), conv())
    one, some = ([ONE, ONE], torch.ones(4, 1, 1)), ([SOME, SOME], torch.ones(4, 1, 1))
    quantized = executorch_vpu.quantize(model, one, [some])
    program = torch.export.export(quantized, one)
    assert partition_report(program).reasons == {}


def test_a_batch_that_the_model_was_written_for_is_named() -> None:
    model = applied(lambda c, x: c(x).view(1, 120), conv())
    words = r"the example inputs, \[\[1, 4, 6, 5\]\], and of the calibration, \[\[6, 4, 6, 5\]\]"
    with pytest.raises(ValueError, match=words) as raised:
        executorch_vpu.quantize(model, (ONE,), [SOME])
    assert "Calibrate with batches of the size that the example inputs have" in str(raised.value)


def test_a_model_that_does_something_else_for_one_image_is_refused() -> None:
    model = applied(lambda c, x: c(x).relu() if x.shape[0] == 1 else c(x), conv())
    with pytest.raises(ValueError, match="at once: it computes something else"):
        executorch_vpu.quantize(model, (ONE,), [SOME])


def test_batches_without_the_batch_dimension_are_named() -> None:
    with pytest.raises(ValueError, match="the same number of dimensions"):
        executorch_vpu.quantize(NETS["classifier"](), (ONE,), [ONE[0]])


def test_a_stream_that_ends_with_a_smaller_batch_is_told_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"sizes \[\[3, 4, 6, 5\]\] behind .*drop_last=True"):
        executorch_vpu.quantize(NETS["classifier"](), (SOME,), iter([SOME, SOME[:3]]))


def test_a_random_stateful_model_is_compared_fairly() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.calls.add_(1)
            return self.conv(x) + self.calls + torch.rand(1)

    model = Counting().eval()
    executorch_vpu.quantize(model, (ONE,), [SOME])
    assert model.calls.item() == 0
