"""Numbers that stand for "never" (-inf, the smallest float, -1e9, -100) are no part of a range."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from executorch_vpu import VpuQuantizer, quantize
from executorch_vpu.quantizer import PTQ, QuantizationConfig

from ..support.pipeline import lower_whole, sqnr_db
from .nets import Applied

LENGTH, WIDTH = 24, 16
SENTINELS = [-math.inf, torch.finfo(torch.float32).min, -1e4, -100.0]
Masking = Callable[[Tensor, Tensor, float], Tensor]


def additive(keep: Tensor, never: float) -> Tensor:
    return torch.zeros(keep.shape).masked_fill(~keep, never)


MASKS: dict[str, Masking] = {
    "masked_fill": lambda s, keep, never: s.masked_fill(~keep.unsqueeze(1), never),
    "where": lambda s, keep, never: torch.where(keep.unsqueeze(1), s, never),
    "added": lambda s, keep, never: s + additive(keep, never).unsqueeze(1),
    "added first": lambda s, keep, never: additive(keep, never).unsqueeze(1) + s,
    "subtracted": lambda s, keep, never: s - additive(keep, -never).unsqueeze(1),
    "causal": lambda s, keep, never: s + torch.full((LENGTH, LENGTH), never).triu(1),
    "and a bias": lambda s, keep, never: (
        s + torch.linspace(-2, 2, LENGTH) + additive(keep, never).unsqueeze(1)
    ),
    "through a view": lambda s, keep, never: (
        s.unsqueeze(1) + additive(keep, never)[:, None, None]
    ).squeeze(1),
    "through view_as": lambda s, keep, never: (
        s.unsqueeze(1) + additive(keep, never)[:, None, None]
    ).view_as(s),
    "and clamped": lambda s, keep, never: torch.clamp_min(
        s + additive(keep, never).unsqueeze(1), torch.finfo(torch.float32).min
    ),
    "then scaled": lambda s, keep, never: (s * 2 + additive(keep, never).unsqueeze(1)) / 2 + 1,
    "in place": lambda s, keep, never: s.add_(additive(keep, never).unsqueeze(1)),
    "scores masked twice": lambda s, keep, never: (
        s.masked_fill(~keep.unsqueeze(1), never) + torch.full((LENGTH, LENGTH), never).triu(1)
    ),
}


class Attention(nn.Module):
    def __init__(self, mask: Masking, never: float) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mask, self.never = mask, never

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (self.project(x)[..., i * WIDTH : (i + 1) * WIDTH] for i in range(3))
        scores = q @ k.transpose(-2, -1) * 0.5
        return self.out(torch.softmax(self.mask(scores, keep, self.never), -1) @ v)


def batch() -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([[LENGTH], [int(torch.randint(LENGTH // 2, LENGTH, ()))]])
    return torch.randn(2, LENGTH, WIDTH), torch.arange(LENGTH)[None] < lengths


def noise_db(model: nn.Module, quantizer: VpuQuantizer | None = None) -> float:
    """Of the quantized model, on the data it was calibrated on."""
    data = [batch() for _ in range(4)]
    quantized = quantize(model, data[0], data, quantizer=quantizer, progress=False)
    with torch.no_grad():
        expected = torch.cat([model(*given) for given in data])
        return sqnr_db(expected, torch.cat([quantized(*given) for given in data]))


@functools.cache
def unmasked_db() -> float:
    torch.manual_seed(0)
    return noise_db(Attention(lambda scores, keep, never: scores, 0.0).eval())


@pytest.mark.parametrize("never", SENTINELS)
@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_costs_no_precision(mask: str, never: float) -> None:
    torch.manual_seed(0)
    model = Attention(MASKS[mask], never).eval()
    assert unmasked_db() > 30 and noise_db(model) > unmasked_db() - 3


@pytest.mark.parametrize("never", SENTINELS)
def test_a_mask_costs_no_precision_with_another_observer(never: float) -> None:
    torch.manual_seed(0)
    config = QuantizationConfig(MinMaxObserver, PTQ.weight)
    assert noise_db(Attention(MASKS["added"], never).eval(), VpuQuantizer(config=config)) > 30


@pytest.mark.parametrize("never", [torch.finfo(torch.float32).min, -1e9, -1e4])
@pytest.mark.parametrize("dynamic", [False, True], ids=["added", "masked_fill"])
def test_rows_that_are_masked_as_a_whole_cost_the_others_nothing(
    never: float, dynamic: bool
) -> None:
    """Padded queries, as decoders have them."""
    torch.manual_seed(0)
    x, keep = torch.randn(2, LENGTH, WIDTH), torch.ones(LENGTH, LENGTH).tril().bool()
    keep = keep & (torch.arange(LENGTH) >= 5)  # five of padding, at the left

    def forward(layer: nn.Module, x: Tensor, keep: Tensor) -> Tensor:
        scores = layer(x) @ x.transpose(-2, -1) * 0.5
        masked = scores.masked_fill(~keep, never) if dynamic else scores + additive(keep, never)
        return torch.softmax(masked, -1) @ x

    model = Applied(forward, nn.Linear(WIDTH, WIDTH)).eval()
    quantized = quantize(model, (x, keep), [(x, keep)], progress=False)
    real = (slice(None), slice(5, None))
    assert sqnr_db(model(x, keep)[real].detach(), quantized(x, keep)[real].detach()) > 30


@pytest.mark.parametrize(
    "before_mask",
    [lambda s: s, lambda s: s * 0.5, lambda s: s + 1, lambda s: s.unsqueeze(1).squeeze(1)],
    ids=["", "scaled", "shifted", "moved"],
)
def test_what_a_mask_hides_cuts_no_row(before_mask: Callable[[Tensor], Tensor]) -> None:
    """The largest scores are those that are masked; what remains lies far below them."""
    torch.manual_seed(0)
    hidden = torch.arange(LENGTH) < LENGTH // 2

    def forward(scores: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(before_mask(scores * 1.0) + mask, -1)

    model = Applied(forward).eval()
    scores = torch.randn(2, LENGTH, LENGTH) * 2 - 40
    scores[..., hidden] += 80
    mask = torch.zeros(LENGTH).masked_fill(hidden, -1e4)
    quantized = quantize(model, (scores, mask), [(scores, mask)], progress=False)
    assert sqnr_db(model(scores, mask), quantized(scores, mask)) > 12  # a step of scores is 0.35


def test_a_mask_given_as_input_crosses_as_int8() -> None:
    """A float input of 0 and -inf, as some exporters make it."""
    torch.manual_seed(0)
    layer = nn.Linear(WIDTH, WIDTH)
    model = Applied(
        lambda a, x, mask: torch.softmax(a(x) @ x.transpose(-2, -1) + mask.unsqueeze(1), -1) @ x,
        layer,
    ).eval()
    data = [(x, additive(keep, -math.inf)) for x, keep in (batch() for _ in range(9))]
    quantized = quantize(model, data[0], data[:8], progress=False)
    lower_whole(torch.export.export(quantized, data[0]))
    assert sqnr_db(model(*data[8]).detach(), quantized(*data[8]).detach()) > 30


@pytest.mark.parametrize("never", [*SENTINELS, -1000.0])
@pytest.mark.parametrize(
    "reader",
    [
        lambda x: F.max_pool2d(x, 3, 2),
        lambda x: F.max_pool2d(x.flatten(2).unflatten(2, (-1, 10))[:, 1:], 2),
        lambda x: torch.relu(x),
        lambda x: F.hardtanh(x, -3, 3),
        lambda x: torch.sigmoid(x) * 3,
        lambda x: torch.relu(F.max_pool2d(x, 2)),
    ],
    ids=["max pool", "max pool of a part", "relu", "hardtanh", "sigmoid", "max pool and relu"],
)
def test_padding_with_a_sentinel_costs_no_precision(
    never: float, reader: Callable[[Tensor], Tensor]
) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 4, 3)
    model = Applied(lambda c, x: reader(F.pad(c(x), (1, 0, 1, 0), value=never)) * 1.0, layer).eval()
    data = [torch.randn(2, 3, 11, 11) for _ in range(8)]
    quantized = quantize(model, (data[0],), data, progress=False)
    x = torch.randn(2, 3, 11, 11)
    assert sqnr_db(model(x).detach(), quantized(x).detach()) > 30


def test_a_number_that_somebody_computes_with_is_in_the_range() -> None:
    x = torch.randn(2, 3, 8, 8)
    model = Applied(lambda x: F.pad(x, (1, 1), value=-1000.0) * 2).eval()
    quantized = quantize(model, (x,), [x], progress=False)
    assert (quantized(x) - model(x)).abs().max() < 2 * 2000 / 255


def test_scores_that_also_leave_the_model_keep_their_range() -> None:
    x = torch.randn(2, 5, 7) * 20
    model = Applied(lambda x: (s := x * 1.5, torch.softmax(s, -1), s)[1:]).eval()
    quantized = quantize(model, (x,), [x], progress=False)
    assert sqnr_db(model(x)[1], quantized(x)[1]) > 35


@pytest.mark.parametrize("never", SENTINELS[:-1])
@pytest.mark.parametrize(
    "model",
    [
        lambda c, x, never: torch.erf(F.pad(c(x), (1, 1), value=never)),
        lambda c, x, never: F.pad(c(x), (1, 1), value=never),
        lambda c, x, never: F.log_softmax(c(x) + torch.full((9, 9), never).triu(1), -1),
    ],
    ids=["read by the CPU", "an output", "a softmax on the CPU"],
)
def test_a_sentinel_that_is_read_whole_stays_in_float(
    model: Callable[..., Tensor], never: float
) -> None:
    torch.manual_seed(0)
    net = Applied(lambda c, x: model(c, x, never), nn.Conv2d(3, 4, 3)).eval()
    data = [torch.randn(2, 3, 11, 11) for _ in range(4)]
    quantizer = VpuQuantizer()
    quantized = quantize(net, (data[0],), data, quantizer=quantizer, progress=False)
    expected, actual = net(data[0]).detach(), quantized(data[0]).detach()
    seen = expected > -1000
    torch.testing.assert_close(expected[~seen], actual[~seen], rtol=1e-3, atol=0)
    assert sqnr_db(expected[seen], actual[seen]) > 30
    assert any("brings in" in skipped.reason for skipped in quantizer.skipped)


@pytest.mark.parametrize("never", SENTINELS[:-1])
def test_a_constant_mask_may_be_subtracted(never: float) -> None:
    torch.manual_seed(0)
    mask = torch.full((9, 9), -never).triu(1)
    model = Applied(lambda c, x: torch.softmax(c(x) - mask, -1), nn.Conv2d(3, 4, 3)).eval()
    data = [torch.randn(2, 3, 11, 11) for _ in range(4)]
    quantized = quantize(model, (data[0],), data, progress=False)
    lower_whole(torch.export.export(quantized, (data[0],)))
    assert sqnr_db(model(data[0]).detach(), quantized(data[0]).detach()) > 30


@pytest.mark.parametrize("never", [math.inf, 1e9, 1e4])
@pytest.mark.parametrize("sign", [1, -1], ids=["added", "subtracted"])
def test_a_constant_that_lifts_a_sum_to_a_flat_end_costs_no_precision(
    never: float, sign: int
) -> None:
    torch.manual_seed(0)
    mask = torch.zeros(9, 9)
    mask[2:4] = sign * never

    def forward(c: nn.Module, x: Tensor) -> Tensor:
        return torch.sigmoid(c(x) + mask if sign > 0 else c(x) - mask)

    model = Applied(forward, nn.Conv2d(3, 4, 3)).eval()
    data = [torch.randn(2, 3, 11, 11) for _ in range(4)]
    quantized = quantize(model, (data[0],), data, progress=False)
    assert sqnr_db(model(data[0]).detach(), quantized(data[0]).detach()) > 35


def test_a_sentinel_that_ruins_a_range_is_warned_of() -> None:
    x = torch.randn(2, 3, 8, 8)
    masked = x.masked_fill(torch.rand(x.shape) > 0.9, -1e9)
    with pytest.warns(UserWarning, match="the input input_1 holds -1e.09 beside small numbers"):
        quantize(nn.Conv2d(3, 4, 3).eval(), (masked,), [masked], progress=False)


def test_a_copy_of_a_prepared_model_measures_masks_by_itself() -> None:
    torch.manual_seed(0)
    model, data = Attention(MASKS["added"], -math.inf).eval(), batch()
    prepared = prepare_pt2e(torch.export.export(model, data).module(), VpuQuantizer())
    copied = copy.deepcopy(prepared)
    with torch.no_grad():
        copied(*data)
        prepared(*data)
        assert torch.equal(convert_pt2e(copied)(*data), convert_pt2e(prepared)(*data))
