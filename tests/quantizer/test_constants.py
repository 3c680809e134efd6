"""Weights and masks that the model computes from constants are constants of the program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune
from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from executorch_vpu import VpuPartitioner, VpuQuantizer, quantize
from executorch_vpu.backend.folding import fold_constants

from ..support.pipeline import lower_whole, run_pte, sqnr_db
from .nets import Applied, warmed_up

IMAGE, VECTOR = torch.randn(2, 3, 9, 9), torch.randn(4, 6)


class Computed(nn.Module):
    """A layer whose weight is `compute(self.weight, self)`, perhaps with a batch norm behind."""

    def __init__(self, compute: Callable[..., Tensor], shape: tuple[int, ...], norm: bool) -> None:
        super().__init__()
        self.compute, self.image = compute, len(shape) == 4
        self.weight = nn.Parameter(torch.randn(shape) * 0.3)
        self.mask: Tensor
        self.register_buffer("mask", (torch.rand(shape) > 0.4).float())
        self.down, self.up = nn.Parameter(torch.randn(5, 2)), nn.Parameter(torch.randn(2, 6))
        self.norm = nn.BatchNorm2d(8) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        weight = self.compute(self.weight, self)
        return self.norm(F.conv2d(x, weight) if self.image else F.linear(x, weight))


def in_place(weight: Tensor, model: Computed) -> Tensor:
    kept = torch.zeros(weight.shape)
    kept[:, :2] = 1
    kept.mul_(2).add_(0.5)
    return weight * kept


COMPUTED: dict[str, Callable[[bool], tuple[nn.Module, Tensor]]] = {
    name: lambda norm, compute=compute, shape=shape: (
        Computed(compute, shape, norm and len(shape) == 4),
        IMAGE if len(shape) == 4 else VECTOR,
    )
    for name, (compute, shape) in {
        "masked": (lambda w, m: w * m.mask, (8, 3, 3, 3)),
        "scaled": (lambda w, m: w * 0.1, (8, 3, 3, 3)),
        "tanh": (lambda w, m: torch.tanh(w), (8, 3, 3, 3)),
        "standardized": (
            lambda w, m: (w - w.mean()) / w.std((1, 2, 3), keepdim=True),
            (8, 3, 3, 3),
        ),
        "binary": (lambda w, m: w.sign() * w.abs().mean((1, 2, 3), True), (8, 3, 3, 3)),
        "in place": (in_place, (8, 3, 3, 3)),
        "transposed": (lambda w, m: w.t(), (6, 5)),
        "sliced": (lambda w, m: w[:, :6], (5, 9)),
        "low-rank update": (lambda w, m: w + m.down @ m.up, (5, 6)),
        "expanded": (lambda w, m: w.expand(5, 6), (5, 1)),
    }.items()
}


def parametrized(layer: nn.Module, parametrize: Callable[[nn.Module], object]) -> nn.Module:
    parametrize(layer)
    return nn.Sequential(layer, nn.ReLU())


COMPUTED |= {
    "spectral norm": lambda norm: (
        parametrized(nn.Conv2d(3, 8, 3), parametrizations.spectral_norm),
        IMAGE,
    ),
    "orthogonal": lambda norm: (
        parametrized(nn.Linear(6, 6), parametrizations.orthogonal),
        VECTOR,
    ),
    "pruning left on": lambda norm: (
        parametrized(nn.Conv2d(3, 8, 3), lambda c: prune.l1_unstructured(c, "weight", 0.5)),
        IMAGE,
    ),
}


@pytest.mark.filterwarnings("ignore:The tensor attribute")  # pruning's own
@pytest.mark.parametrize("norm", [False, True], ids=["", "batch norm"])
@pytest.mark.parametrize("name", COMPUTED)
def test_computed_weights_run_on_the_vpu(name: str, norm: bool) -> None:
    torch.manual_seed(0)
    model, x = COMPUTED[name](norm)
    warmed_up(model)
    expected = model(x)
    quantized = quantize(model, (x,), [x], progress=False)
    lower_whole(torch.export.export(quantized, (x,)))  # one subgraph, nothing on the CPU
    assert sqnr_db(expected.detach(), quantized(x).detach()) > 33


def test_folding_changes_nothing_and_leaves_state_alone() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.count = nn.Parameter(torch.randn(6)), torch.zeros(1)
            self.register_buffer("steps", self.count)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            self.steps.add_(1)
            scratch = torch.zeros(2, 6)
            scratch[0] += x[0]  # written to from an input
            fed_by_state = torch.zeros(6)
            fed_by_state += self.steps
            early = torch.ones(6)
            before = x * early
            early.mul_(3)  # after it was read
            noise = torch.rand(6) * 0 + self.table.exp()
            return (
                x + self.steps * 2 + fed_by_state,
                scratch + self.table * 2,
                before + early,
                x + noise,
            )

    x = torch.randn(3, 6)
    exported = torch.export.export(Model(), (x[:2],)).module()
    expected = [exported(x[:2]) for _ in range(2)]
    exported.steps.zero_()
    fold_constants(exported)
    exported.graph.lint()
    for outputs in expected:
        for value, wanted in zip(exported(x[:2]), outputs, strict=True):
            assert torch.equal(value, wanted)
    assert "table" not in dict(exported.named_parameters())  # only what it made of it is left


@pytest.mark.parametrize("size", [6, 2100])  # 2100 x 2100 is too large to be stored
def test_memory_that_constants_fill_in_place_keeps_its_values(size: int) -> None:
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        mask = torch.zeros(size, size)
        mask[1].fill_(3)  # through a view, which nobody reads
        mask[:, 2:4].add_(1)
        return x @ mask, x + mask[1] + torch.ones(size)

    x = torch.randn(2, size)
    exported = torch.export.export(Applied(forward), (x,)).module()
    expected = exported(x)
    fold_constants(exported)
    exported.graph.lint()
    for _ in range(2):  # what it writes to is not state
        for value, wanted in zip(exported(x), expected, strict=True):
            assert torch.equal(value, wanted)


def test_what_a_little_is_expanded_to_is_not_stored() -> None:
    x = torch.randn(1, 4)
    model = Applied(lambda x: x + torch.arange(4.0).expand(3_000_000, 4)[:1])
    exported = fold_constants(torch.export.export(model, (x,)).module())
    assert sum(t.numel() for t in exported.state_dict().values()) < 100


def test_parameters_of_computed_weights_are_still_trained() -> None:
    model = Computed(lambda w, m: torch.tanh(w) * m.mask, (8, 3, 3, 3), False)
    prepared = prepare_qat_pt2e(
        torch.export.export(model, (IMAGE,)).module(), VpuQuantizer(is_qat=True)
    )
    prepared(IMAGE).square().mean().backward()
    assert prepared.weight.grad.abs().sum() > 0
    move_exported_model_to_eval(prepared)
    quantized = convert_pt2e(prepared)
    lower_whole(torch.export.export(quantized, (IMAGE,)))
    assert sqnr_db(model(IMAGE).detach(), quantized(IMAGE).detach()) > 25


def test_a_weight_that_would_be_quantized_at_run_time_is_refused() -> None:
    """ExecuTorch's kernel for it ends the process."""
    prepared = prepare_pt2e(
        torch.export.export(nn.Conv2d(3, 4, 3).eval(), (IMAGE,)).module(), VpuQuantizer()
    )
    prepared(IMAGE)
    program = torch.export.export(convert_pt2e(prepared, fold_quantize=False), (IMAGE,))
    with pytest.raises(ValueError, match=r"quantizes .*weight per channel when the program runs"):
        to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])


def test_a_weight_computed_from_an_input_stays_in_float() -> None:
    """And so does the layer: it runs, on the CPU."""
    inputs = (IMAGE, torch.rand(8, 3, 3, 3))
    model = Applied(lambda x, w: F.conv2d(x * 2, w * 0.5)).eval()
    quantized = quantize(model, inputs, [inputs], progress=False)
    edge = to_edge_transform_and_lower(
        torch.export.export(quantized, inputs), partitioner=[VpuPartitioner()]
    )
    [output] = run_pte(edge.to_executorch().buffer, inputs)
    assert sqnr_db(model(*inputs), output) > 35
