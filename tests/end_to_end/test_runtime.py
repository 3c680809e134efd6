"""Quantized models through to_edge_transform_and_lower, to_executorch and ExecuTorch's runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from executorch.exir import (
    EdgeProgramManager,
    ExecutorchBackendConfig,
    to_edge,
    to_edge_transform_and_lower,
)
from torch import nn
from torch.fx import GraphModule

from executorch_vpu import VpuPartitioner
from executorch_vpu.backend.namespace import aten_target
from executorch_vpu.backend.reference import Reference
from executorch_vpu.backend.units import is_op, is_quantization
from tests.support.pipeline import Inputs, delegates, lower_whole, quantize, run_pte

aten = torch.ops.aten


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.second(x) + x)


class CpuInTheMiddle(nn.Module):
    """sin is on no VPU; the relu before it also feeds the VPU past it."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.before(x))
        return self.after(torch.sin(x)) + x


class TwoOutputs(nn.Module):
    """One value leaves as a model output and is read on."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = torch.relu(self.stem(x))
        return features, self.head(features.mean((2, 3)))


class SharedInput(nn.Module):
    """The input feeds the VPU twice and the CPU once."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.left(x) + self.right(x), torch.sin(x)


class Permuted(nn.Module):
    """Values that leave in another order than they are stored in."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x)).permute(0, 2, 3, 1).flatten(1)


class Twice(nn.Module):
    """One block applied twice: its weights are shared."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(torch.relu(self.conv(x))))


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        y.relu_()
        y.add_(1.5)
        return y


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv1d(3, 6, 5, padding=2, stride=2), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.conv(x.flatten(2))).transpose(1, 2)).softmax(-1)


NETS: dict[str, Callable[[], nn.Module]] = {
    net.__name__: net
    for net in (
        Residual, CpuInTheMiddle, TwoOutputs, SharedInput, Permuted, Twice, InPlace, Sequences,
    )
}  # fmt: skip


def example(channels_last: bool = False) -> Inputs:
    x = torch.randn(2, 3, 7, 9, generator=torch.Generator().manual_seed(3))
    return (x.to(memory_format=torch.channels_last) if channels_last else x,)


def lower(quantized: GraphModule, inputs: Inputs, **options: object) -> EdgeProgramManager:
    program = torch.export.export(quantized, inputs)
    return to_edge_transform_and_lower(program, partitioner=[VpuPartitioner(**options)])  # type: ignore[arg-type]


def check(quantized: GraphModule, edge: EdgeProgramManager, inputs: Inputs) -> None:
    """The .pte gives what the Q/DQ graph gives, to a few steps of the coarsest output scale."""
    outputs = run_pte(edge.to_executorch().buffer, inputs)
    with torch.no_grad():
        expected = quantized(*inputs)
    expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    assert len(outputs) == len(expected)
    for actual, wanted in zip(outputs, expected, strict=True):
        assert actual.shape == wanted.shape
        step = (wanted.max() - wanted.min()) / 255
        assert (actual - wanted).abs().max() <= 3 * step
        assert (actual - wanted).abs().mean() <= step / 4


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("boundary", ["float", "int8"])
@pytest.mark.parametrize("net", NETS)
def test_a_pte_computes_what_the_qdq_graph_computes(
    net: str, boundary: str, channels_last: bool
) -> None:
    inputs = example(channels_last)
    torch.manual_seed(0)
    quantized = quantize(NETS[net](), inputs)
    edge = lower(quantized, inputs, boundary=boundary)
    assert len(delegates(edge)) >= 1
    check(quantized, edge, inputs)


@pytest.mark.parametrize("net", [Residual, TwoOutputs, Permuted, Twice, InPlace, Sequences])
def test_a_pte_gives_the_references_bits(net: Callable[[], nn.Module]) -> None:
    inputs = example(channels_last=True)
    torch.manual_seed(0)
    program = torch.export.export(quantize(net(), inputs), inputs)
    vpu, _ = lower_whole(program)
    expected = Reference(vpu).run([x.numpy() for x in inputs])
    edge = to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])
    outputs = run_pte(edge.to_executorch().buffer, inputs)
    assert len(outputs) == len(expected)
    for actual, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual.numpy(), wanted)


def test_the_float_boundary_leaves_no_quantize_outside() -> None:
    quantized = quantize(Residual(), example())
    inside = lower(quantized, example())
    outside = lower(quantized, example(), boundary="int8")
    calls = [str(n.target) for n in inside.exported_program().graph.nodes]
    assert not any("quantize" in call for call in calls)
    calls = [str(n.target) for n in outside.exported_program().graph.nodes]
    assert sum("quantize_per_tensor" in call for call in calls) == 2


def test_a_float_only_model_runs_on_the_cpu() -> None:
    model, inputs = Residual().eval(), example()
    edge = lower(torch.export.export(model, inputs).module(), inputs)  # type: ignore[arg-type]
    assert delegates(edge) == []
    [actual] = run_pte(edge.to_executorch().buffer, inputs)
    torch.testing.assert_close(actual, model(*inputs), rtol=1e-4, atol=1e-5)


def test_a_model_without_any_op_lowers_and_runs() -> None:
    class Identity(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    edge = lower(quantize(Identity(), example()), example())
    assert delegates(edge) == []
    [actual] = run_pte(edge.to_executorch().buffer, example())
    assert torch.equal(actual, *example())


def test_only_unsupported_ops_stay_on_the_cpu() -> None:
    class Sine(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(x)

    quantized = quantize(Sine(), example())
    edge = lower(quantized, example())
    assert delegates(edge) == []
    check(quantized, edge, example())


def test_dynamic_shapes_stay_on_the_cpu_and_run() -> None:
    model, inputs = Residual().eval(), example()
    shapes = ({0: torch.export.Dim("batch", min=1, max=8)},)
    exported = torch.export.export(model, inputs, dynamic_shapes=shapes).module()
    quantized = quantize(model, inputs, exported=exported)
    program = torch.export.export(quantized, inputs, dynamic_shapes=shapes)
    edge = to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])
    assert delegates(edge) == []
    longer = (torch.randn(5, 3, 7, 9),)
    [actual] = run_pte(edge.to_executorch().buffer, longer)
    torch.testing.assert_close(actual, quantized(*longer), rtol=1e-3, atol=0.05)


@pytest.mark.parametrize("vpu_first", [True, False])
def test_another_partitioner_in_the_list_takes_what_is_left(vpu_first: bool) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.other = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(self.other(torch.sin(torch.relu(self.conv(x)))))

    quantized = quantize(Mixed(), example(), ops=[aten.conv2d.default, aten.relu.default])
    program = torch.export.export(quantized, example())
    partitioners = [VpuPartitioner(), XnnpackPartitioner()][:: 1 if vpu_first else -1]
    edge = to_edge_transform_and_lower(program, partitioner=partitioners)
    assert [d.backend_id for d in delegates(edge)].count("VpuBackend") == 2
    assert "XnnpackBackend" in [d.backend_id for d in delegates(edge)]
    check(quantized, edge, example())


def test_a_second_vpu_partitioner_in_the_list_is_refused() -> None:
    program = torch.export.export(quantize(Residual(), example()), example())
    with pytest.raises(ValueError, match="Another VpuPartitioner has planned this program"):
        to_edge_transform_and_lower(program, partitioner=[VpuPartitioner(), VpuPartitioner()])


@pytest.mark.parametrize("boundary", ["float", "int8"])
def test_every_node_on_the_cpu_says_where_in_the_model_it_belongs(boundary: str) -> None:
    edge = lower(quantize(CpuInTheMiddle(), example()), example(), boundary=boundary)
    nodes = [n for n in edge.exported_program().graph.nodes if is_op(n) or is_quantization(n)]
    ops = [n for n in nodes if aten_target(n) is not None]
    assert len(ops) == (1 if boundary == "float" else 5)
    assert all("test_runtime.py" in n.meta["stack_trace"] for n in ops)
    assert all(n.meta["nn_module_stack"] for n in ops)


def test_a_program_on_the_cpu_can_be_emitted_with_stack_traces() -> None:
    quantized = quantize(CpuInTheMiddle(), example())
    edge = lower(quantized, example(), min_ops=9)
    config = ExecutorchBackendConfig(emit_stacktrace=True)
    assert edge.to_executorch(config).executorch_program.execution_plan[0].chains[0].stacktrace


def test_to_backend_without_the_hook_says_why_nothing_is_delegated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quantized = quantize(Residual(), example())
    edge = to_edge(torch.export.export(quantized, example())).to_backend(VpuPartitioner())
    assert delegates(edge) == []
    assert "to_edge_transform_and_lower" in caplog.text
    check(quantized, edge, example())


def test_lowering_leaves_the_users_program_as_it_was() -> None:
    quantized = quantize(Residual(), example())
    program = torch.export.export(quantized, example())
    before = str(program.graph)
    to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])
    assert str(program.graph) == before
    assert not any("vpu_subgraph" in n.meta.get("custom", {}) for n in program.graph.nodes)


def test_min_ops_keeps_small_subgraphs_on_the_cpu() -> None:
    quantized = quantize(CpuInTheMiddle(), example())
    assert len(delegates(lower(quantized, example(), min_ops=2))) == 2
    edge = lower(quantized, example(), min_ops=3)
    assert delegates(edge) == []
    check(quantized, edge, example())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boundary": "float32"}, 'must be "float" or "int8"'),
        ({"min_ops": 0}, "at least 1 op"),
        ({"ops": [aten.sin.default]}, "not in the op table: aten.sin.default"),
    ],
)
def test_bad_arguments_say_what_was_expected(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VpuPartitioner(**options)  # type: ignore[arg-type]


def test_one_partitioner_serves_several_methods() -> None:
    first, second = quantize(Residual(), example()), quantize(Permuted(), example())
    programs = {
        "forward": torch.export.export(first, example()),
        "other": torch.export.export(second, example()),
    }
    partitioner = [VpuPartitioner()]
    edge = to_edge_transform_and_lower(programs, partitioner=partitioner)
    buffer = edge.to_executorch().buffer
    for name, module in (("forward", first), ("other", second)):
        [actual] = run_pte(buffer, example(), name)
        assert (actual - module(*example())).abs().mean() < 0.02
