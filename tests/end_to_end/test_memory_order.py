"""In which order values lie in memory where the VPU hands over to the CPU, takes over from it, and
reads what the runtime is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn
from torch.nn import functional as F

from executorch_vpu import VPU_OPS, VpuPartitioner, partition_report
from tests.ops.samples import SAMPLES, Call, Sample
from tests.support.pipeline import Inputs, delegates, quantize, run_pte, sqnr_db

MOVERS = {VPU_OPS[s.target].name: VPU_OPS[s.target] for s in SAMPLES if s.target in VPU_OPS}
MOVERS = {name: op for name, op in MOVERS.items() if op.data_movement}
VIEWS = {"view", "permute", "slice"}
DB = 50  # vs the Q/DQ graph: a step here and there at most


def run(model: nn.Module, inputs: Inputs, given: Inputs | None = None, boundary: str = "float",
        ) -> tuple[list[Tensor], list[Tensor], int]:  # fmt: skip
    """What the Q/DQ graph gives in PyTorch, what the .pte does, and the number of delegates."""
    quantized = quantize(model, inputs)
    program = torch.export.export(quantized, inputs)
    edge = to_edge_transform_and_lower(
        program,
        partitioner=[VpuPartitioner(boundary=boundary)],  # type: ignore[arg-type]
    )
    with torch.no_grad():
        expected = quantized(*inputs)
    expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    actual = run_pte(edge.to_executorch().buffer, given or inputs)
    return expected, actual, len(delegates(edge))


class MoveThenCpu(nn.Module):
    """relu on the VPU, calls that only move data, then a CPU op that checks the order it is given
    (cumsum) and one that takes it for granted (layer_norm)."""

    def __init__(self, samples: list[Sample]) -> None:
        super().__init__()
        self.calls = [s.model for s in samples if isinstance(s.model, Call)]
        self.takes = [len(s.shapes) for s in samples]

    def forward(self, *xs: Tensor) -> list[Tensor]:
        results = []
        for call, count in zip(self.calls, self.takes, strict=True):
            (x, *others), xs = xs[:count], xs[count:]
            moved = call.op(torch.relu(x), *others, *call.args, **call.keywords)
            moved = moved if moved.ndim else moved[None]
            results += [moved.cumsum(-1), F.layer_norm(moved, moved.shape[-1:])]
        return results


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("family", MOVERS)
def test_what_only_moves_data_hands_over_contiguous_memory(
    family: str, channels_last: bool
) -> None:
    if channels_last and family not in VIEWS:
        pytest.skip("keeps channels_last, which ExecuTorch's kernels do not take there")
    samples = [s for s in SAMPLES if VPU_OPS[s.target] is MOVERS[family]]
    assert {s.target for s in samples} == set(MOVERS[family].targets)
    samples = [s for s in samples if "channels_last" not in s.name]  # asked for: kept
    inputs = tuple(x for s in samples for x in s.inputs(channels_last))
    expected, actual, count = run(MoveThenCpu(samples), inputs)
    assert count >= 1
    for wanted, got in zip(expected, actual, strict=True):
        assert got.shape == wanted.shape and sqnr_db(wanted, got) > DB


class Around(nn.Module):
    """Convolutions before and behind what `between` does."""

    def __init__(self, between: Callable[[Around, Tensor], Tensor]) -> None:
        super().__init__()
        self.before, self.behind = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 1)
        self.linear = nn.Linear(8, 5)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.between(self, torch.relu(self.before(x)))


def _tokens(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)


def _attention(x: Tensor) -> Tensor:
    heads = _tokens(x).unflatten(-1, (2, 4)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)


BETWEEN: dict[str, Callable[[Around, Tensor], Tensor]] = {
    "erf": lambda net, x: net.linear(torch.erf(x.permute(0, 2, 3, 1))),
    "attention": lambda net, x: net.linear(_attention(x)),
    "gru": lambda net, x: net.linear(net.gru(_tokens(x))[0]),
    "lstm": lambda net, x: net.linear(net.lstm(_tokens(x))[0]),
    "permuted": lambda net, x: net.behind(x.permute(0, 3, 2, 1).sin().permute(0, 3, 1, 2)),
    "gathered": lambda net, x: net.behind(x[:, torch.tensor([1, 0, 2, 3, 4, 7, 6, 5])].sin()),
    "as int8 and as float": lambda net, x: net.linear(
        (y := x.permute(0, 2, 3, 1)) + torch.sin(y)
    ) + y.cumsum(1)[..., :5],
}  # fmt: skip


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("between", BETWEEN)
def test_cpu_ops_between_subgraphs_read_and_write_what_the_graph_means(
    between: str, channels_last: bool
) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, 6)
    x = x.to(memory_format=torch.channels_last) if channels_last else x
    boundary = "int8" if channels_last else "float"
    [expected], [actual], count = run(Around(BETWEEN[between]).eval(), (x,), boundary=boundary)
    assert count >= 1
    assert sqnr_db(expected, actual) > DB


class Convolving(nn.Module):
    def __init__(self, rank: int, channels: int) -> None:
        super().__init__()
        self.conv = {3: nn.Conv1d, 4: nn.Conv2d}[rank](channels, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(torch.sin(x) if x.ndim == 3 else x))


STRIDED: dict[str, tuple[nn.Module, Tensor]] = {
    "transposed": (nn.Linear(24, 5), torch.randn(24, 6).t()),
    "spectrogram": (Convolving(3, 5), torch.randn(2, 7, 5).transpose(1, 2)),
    "permuted": (Convolving(4, 5), torch.randn(2, 3, 5, 4).permute(0, 2, 1, 3)),
    "crop": (Convolving(4, 3), torch.randn(2, 3, 8, 9)[:, :, 2:, 2:]),
    "channels_last crop": (
        Convolving(4, 3),
        torch.randn(2, 3, 8, 9).to(memory_format=torch.channels_last)[:, :, 2:, 2:],
    ),
    "expanded": (Convolving(4, 3), torch.randn(2, 3, 8, 1).expand(-1, -1, -1, 7)),
    "negated": (nn.Linear(4, 5), torch.randn(3, 4, dtype=torch.complex64).conj().imag),
}


@pytest.mark.parametrize("example", STRIDED)
def test_a_program_with_a_strided_example_reads_contiguous_memory(example: str) -> None:
    model, x = STRIDED[example]
    [expected], [actual], count = run(model, (x,), given=(x.contiguous(),))
    assert count == 1
    assert sqnr_db(expected, actual) > DB


def test_the_runtime_refuses_an_input_it_would_read_in_the_wrong_order() -> None:
    x = torch.randn(24, 6).t()
    with pytest.raises(RuntimeError, match="contiguous or channels-last"):
        run(nn.Linear(24, 5), (x,))


def test_the_report_warns_of_a_strided_example() -> None:
    model, x = STRIDED["spectrogram"]
    report = partition_report(quantize(model, (x,)), (x,))
    [warning] = report.warnings
    assert "strides [35, 1, 5]" in warning and "x.contiguous()" in warning
    assert warning in report.to_text(400) and warning in report.to_json()["warnings"]
    assert "strides" in report.to_dot()


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(2, 3, 4, 5),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(2, 1, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(1, 6).t(),
    ],
)
def test_plain_examples_give_no_warning(x: Tensor) -> None:
    assert partition_report(torch.export.export(nn.ReLU(), (x,))).warnings == ()


def test_a_view_that_only_the_examples_strides_allow_is_refused_in_words() -> None:
    class Viewed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(x.t().view(12, 12))

    program = torch.export.export(Viewed(), (torch.randn(24, 6).t(),))
    with pytest.raises(ValueError, match=r"view .*does not work on contiguous inputs.*reshape"):
        to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])


def test_an_operand_read_for_its_shape_or_type_alone_does_not_come_to_the_vpu() -> None:
    class Alike(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 12), nn.Linear(6, 3)

        def forward(self, x: Tensor, like: Tensor) -> Tensor:
            y = torch.relu(self.first(x))
            y = y.type_as(torch.sin(x)).to(y).view_as(like)
            return self.second(y)

    inputs = (torch.randn(4, 6), torch.zeros(8, 6, dtype=torch.int64))
    report = partition_report(quantize(Alike(), inputs), inputs)
    assert len(report.subgraphs) == 1
    assert {t.tensor for t in report.transfers} == {"x", "linear_1"}
    [expected], [actual], count = run(Alike(), inputs)
    assert count == 1
    assert sqnr_db(expected, actual) > DB
