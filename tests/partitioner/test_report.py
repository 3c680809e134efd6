"""What partition_report counts, says and refuses."""

import json
import re
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest
import torch
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.lowered_backend_module import get_lowered_submodules
from rich.console import Console
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from executorch_vpu import VPU_OPS, VpuPartitioner, VpuQuantizer, partition_report
from executorch_vpu.backend.namespace import aten_target, is_mirror
from executorch_vpu.backend.units import is_op
from executorch_vpu.partitioner.report import PartitionReport
from executorch_vpu.partitioner.rewrite import Boundary

from ..models import SEED_OPS, OpZooNet, TinyConvNet
from ..support.pipeline import quantize
from .nets import Fork, RandomNet, export_quantized

IMAGE = (torch.randn(1, 3, 16, 16),)


@pytest.fixture(scope="module")
def tiny() -> PartitionReport:
    program = export_quantized(TinyConvNet(), IMAGE, SEED_OPS)
    return partition_report(program, ops=SEED_OPS)


@pytest.fixture(scope="module")
def fork() -> PartitionReport:
    return partition_report(export_quantized(Fork(), Fork.inputs, SEED_OPS), ops=SEED_OPS)


def test_tiny_conv_net_on_the_small_vpu_counts_as_in_the_seed(tiny: PartitionReport) -> None:
    summary = tiny.summary
    assert (summary.vpu_ops, summary.cpu_ops, summary.subgraph_sizes) == (13, 1, (11, 2))
    assert (summary.crossings, summary.crossing_bytes) == (4, 1316)
    assert [(e.direction, e.tensor, e.consumer, e.shape, e.bytes) for e in tiny.crossings] == [
        ("CPU→VPU", "x", "conv2d", (1, 3, 16, 16), 768),
        ("VPU→CPU", "relu_3", "adaptive_avg_pool2d", (1, 32, 4, 4), 512),
        ("CPU→VPU", "adaptive_avg_pool2d", "flatten", (1, 32, 1, 1), 32),
        ("VPU→CPU", "linear", "output", (1, 4), 4),
    ]


def test_op_zoo_net_on_the_small_vpu_counts_as_in_the_seed() -> None:
    program = export_quantized(OpZooNet(), IMAGE, SEED_OPS)
    summary = partition_report(program, ops=SEED_OPS).summary
    assert (summary.vpu_ops, summary.cpu_ops, summary.subgraph_sizes) == (5, 7, (1,) * 5)
    assert (summary.crossings, summary.crossing_bytes) == (11, 18970)
    # x feeds two convolutions: 768 bytes counted twice.
    assert (summary.unique_crossings, summary.unique_crossing_bytes) == (10, 18970 - 768)
    assert (summary.moved_tensors, summary.moved_bytes) == (11, 4 * 18970)  # float32

    all_on_cpu = partition_report(program, ops=SEED_OPS, min_ops=2)
    assert (all_on_cpu.summary.vpu_ops, all_on_cpu.summary.cpu_ops) == (0, 12)
    assert not all_on_cpu.subgraphs and not all_on_cpu.crossings and not all_on_cpu.transfers
    assert all_on_cpu.ops[0].reason == "its subgraph would have 1 op; min_ops is 2"


@pytest.mark.parametrize("model", [TinyConvNet, OpZooNet])
def test_the_whole_op_table_takes_the_whole_net(model: type[nn.Module]) -> None:
    report = partition_report(quantize(model(), IMAGE), IMAGE)
    assert len(report.subgraphs) == 1 and report.summary.cpu_ops == 0
    assert not report.reasons and not report.hints


def test_crossings_are_counted_per_edge_per_tensor_and_as_moved(fork: PartitionReport) -> None:
    summary = fork.summary
    assert summary.subgraph_sizes == (2, 1)
    assert (summary.crossings, summary.crossing_bytes) == (5, 32 + 4 * 48)
    assert (summary.unique_crossings, summary.unique_crossing_bytes) == (4, 32 + 3 * 48)
    assert {(t.direction, t.subgraph, t.tensor, t.dtype, t.bytes) for t in fork.transfers} == {
        ("CPU→VPU", 0, "x", "float32", 4 * 32),
        ("VPU→CPU", 0, "relu", "float32", 4 * 48),  # one for sigmoid and tanh
        ("VPU→CPU", 0, "relu", "int8", 48),  # for the other subgraph
        ("CPU→VPU", 1, "relu", "int8", 48),
        ("CPU→VPU", 1, "sigmoid", "float32", 4 * 48),
        ("VPU→CPU", 1, "add", "float32", 4 * 48),
    }
    assert (summary.moved_tensors, summary.moved_bytes) == (6, 800)


def test_an_int8_boundary_moves_one_byte_per_element() -> None:
    program = export_quantized(Fork(), Fork.inputs, SEED_OPS)
    report = partition_report(program, ops=SEED_OPS, boundary="int8")
    assert {t.dtype for t in report.transfers} == {"int8"}
    # x; relu, for everybody; relu and sigmoid; add
    assert (report.summary.moved_tensors, report.summary.moved_bytes) == (5, 32 + 4 * 48)
    assert report.summary.crossing_bytes == 32 + 4 * 48


@pytest.mark.parametrize("boundary", ["float", "int8"])
@pytest.mark.parametrize("net", [Fork(), RandomNet(1), RandomNet(2), RandomNet(3)])
def test_the_delegates_are_what_the_report_said(net: Fork | RandomNet, boundary: Boundary) -> None:
    program = export_quantized(net, net.inputs, SEED_OPS)
    report = partition_report(program, ops=SEED_OPS, boundary=boundary)
    partitioner = VpuPartitioner(ops=SEED_OPS, boundary=boundary)
    lowered = to_edge_transform_and_lower(program, partitioner=[partitioner])

    op_of = {op.name: op.op for op in report.ops}
    planned = [[op_of[op] for unit in g.units for op in unit.ops] for g in report.subgraphs]
    assert Counter(map(_multiset, planned)) == Counter(map(_multiset, _delegated(lowered)))
    reported = Counter((t.direction, t.shape, t.dtype) for t in report.transfers)
    assert reported == _delegate_arguments(lowered)


def _multiset(items: list[str]) -> tuple[str, ...]:
    return tuple(sorted(items))


def _delegated(lowered: EdgeProgramManager) -> list[list[str]]:
    """The ATen ops in every delegate."""
    modules = get_lowered_submodules(lowered.exported_program().graph_module)
    return [
        [
            str(aten_target(node))
            for node in module.original_module.graph.nodes
            if is_mirror(node) and is_op(node)
        ]
        for _, module, _ in modules
    ]


def _delegate_arguments(lowered: EdgeProgramManager) -> Counter[tuple[str, tuple[int, ...], str]]:
    def described(direction: str, node: torch.fx.Node) -> tuple[str, tuple[int, ...], str]:
        value = node.meta["val"]
        return direction, tuple(value.shape), str(value.dtype).removeprefix("torch.")

    arguments: Counter[tuple[str, tuple[int, ...], str]] = Counter()
    for _, _, call in get_lowered_submodules(lowered.exported_program().graph_module):
        arguments.update(described("CPU→VPU", node) for node in call.args[1:])
        arguments.update(described("VPU→CPU", node) for node in call.users)
    return arguments


def test_every_op_has_a_device_and_the_cpu_a_reason(tiny: PartitionReport) -> None:
    by_name = {op.name: op for op in tiny.ops}
    pool, add = by_name["adaptive_avg_pool2d"], by_name["add"]
    assert (pool.device, pool.subgraph, pool.unit) == ("CPU", None, None)
    assert pool.reason == "left out of the ops given"
    assert (add.op, add.device, add.subgraph, add.reason) == ("aten.add.Tensor", "VPU", 0, None)
    assert (add.unit, add.shape) == ("conv2d+add+relu", (1, 32, 4, 4))
    assert [op.name for op in tiny.steps[5]] == ["conv2d_3", "add", "relu_3"]


def test_reasons_tell_unknown_ops_from_those_left_float() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a, b = torch.cosh(x).chunk(2, 1)
            return torch.relu(a + b)

    model, inputs = Net(), (torch.randn(1, 4, 3, 3),)
    report = partition_report(model, inputs)
    reasons = {op.name: op.reason for op in report.ops}
    assert reasons == {
        "cosh": "not in the op table",
        "chunk": "not in the op table",
        "getitem": "an output of chunk, which is on the CPU",
        "getitem_1": "an output of chunk, which is on the CPU",
        "add": "its input getitem is float: the quantizer left this op out",
        "relu": "belongs to add, which is on the CPU",
    }
    assert [op.name for op in report.reasons["not in the op table"]] == ["cosh", "chunk"]
    assert "not quantized" in report.hints[0]


def test_dynamic_shapes_are_reported_not_refused() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x)

    batch = torch.export.Dim("batch", min=2, max=8)
    program = torch.export.export(Net(), (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    report = partition_report(program)
    assert report.summary.cpu_ops == len(report.ops)
    relu = next(op for op in report.ops if op.name == "relu")
    assert isinstance(relu.shape[0], str) and relu.shape[1] == 4
    assert json.dumps(report.to_json()) and str(report) and report.to_dot()


def test_a_program_without_ops_is_an_empty_report() -> None:
    report = partition_report(nn.Identity(), (torch.randn(2),))
    assert report.ops == () and report.summary.crossings == 0
    assert str(report) and report.to_dot()


def test_json_holds_the_summary_and_survives_a_round_trip(
    fork: PartitionReport, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    fork.save(path)
    loaded = json.loads(path.read_text())
    assert loaded == fork.to_json()
    assert loaded["summary"] == {
        "vpu_ops": 3,
        "cpu_ops": 2,
        "subgraph_sizes": [2, 1],
        "crossings": 5,
        "crossing_bytes": 224,
        "unique_crossings": 4,
        "unique_crossing_bytes": 176,
        "moved_tensors": 6,
        "moved_bytes": 800,
    }
    assert len(loaded["crossings"]) == 5 and len(loaded["transfers"]) == 6
    assert sum(crossing["bytes"] for crossing in loaded["crossings"]) == 224
    assert [subgraph["size"] for subgraph in loaded["subgraphs"]] == [2, 1]
    assert loaded["reasons"] == {"left out of the ops given": ["sigmoid", "tanh"]}


def test_the_text_names_every_op_reason_and_crossing(tiny: PartitionReport) -> None:
    text = tiny.to_text(200)
    for op in tiny.ops:
        assert op.name in text and (op.reason or "") in text
    for edge in tiny.crossings:
        assert any(
            edge.tensor in line and edge.consumer in line and f"{edge.bytes:,}" in line
            for line in text.splitlines()
        )
    assert "13 ops on the VPU in 2 subgraphs (11, 2), 1 op on the CPU" in text
    assert "1,316 bytes as int8" in text and "\x1b" not in text


@pytest.mark.parametrize("width", [20, 40, 60, 100])
def test_the_text_keeps_to_its_width_with_every_number_whole(
    tiny: PartitionReport, fork: PartitionReport, width: int
) -> None:
    for report in (tiny, fork):
        console = Console(file=StringIO(), width=width)
        with console.capture() as capture:
            console.print(report)
        for text in (report.to_text(width), capture.get()):
            assert max(map(len, text.splitlines())) <= width
            printed = set(re.findall(r"\d[\d,]*", text))
            for argument in (*report.crossings, *report.transfers):
                assert {f"{argument.bytes:,}", *map(str, argument.shape)} <= printed, text


def test_the_model_is_left_as_it_was() -> None:
    model = quantize(Fork(), Fork.inputs)
    program = torch.export.export(model, Fork.inputs)
    before = str(model.graph), str(program.graph)
    assert partition_report(model, Fork.inputs) == partition_report(program)
    assert (str(model.graph), str(program.graph)) == before
    assert not any("custom" in node.meta for node in program.graph.nodes)


def test_wrong_models_are_refused_in_words() -> None:
    exported = torch.export.export(Fork(), Fork.inputs)
    with pytest.raises(TypeError, match=r"convert_pt2e returned, or an ExportedProgram, not str"):
        partition_report("model.pt2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"call partition_report\(model, inputs\)"):
        partition_report(Fork())
    with pytest.raises(TypeError, match=r"a tuple of example inputs, not Tensor"):
        partition_report(Fork(), *Fork.inputs)  # type: ignore[arg-type]
    prepared = prepare_pt2e(exported.module(), VpuQuantizer())
    with pytest.raises(ValueError, match="call convert_pt2e first"):
        partition_report(prepared, Fork.inputs)
    edge = to_edge_transform_and_lower(exported)
    with pytest.raises(ValueError, match="lowered to the edge dialect already"):
        partition_report(edge.exported_program())


def test_wrong_arguments_are_refused_in_words(fork: PartitionReport, tmp_path: Path) -> None:
    program = torch.export.export(Fork(), Fork.inputs)
    with pytest.raises(ValueError, match="min_ops is 0"):
        partition_report(program, min_ops=0)
    with pytest.raises(ValueError, match="boundary is 'int4'"):
        partition_report(program, boundary="int4")  # type: ignore[arg-type]
    outside = torch.ops.aten.cosh.default
    assert outside not in VPU_OPS
    with pytest.raises(ValueError, match=r"not in the op table: aten.cosh.default"):
        partition_report(program, ops=[outside])
    with pytest.raises(ValueError, match=r"must be .txt, .json, .dot, .svg or .png"):
        fork.save(tmp_path / "report.gif")
