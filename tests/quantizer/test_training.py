"""Quantization-aware training. Few models only: torchao needs a long time for each."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

from executorch_vpu import VpuPartitioner, VpuQuantizer, partition_report
from executorch_vpu.backend.units import is_dequantize
from executorch_vpu.quantizer import Skipped
from tests.support.pipeline import run_pte, sqnr_db

from .graphs import cpu_reasons, export, observer_sites, unit_names
from .nets import ConvBnReLU

INPUTS = (torch.randn(4, 3, 6, 5),)


class Net(nn.Module):
    """Every kind of batch norm and dropout that training leaves its traces in."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.second_norm = nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4)
        self.dropout, self.linear, self.norm = nn.Dropout(0.3), nn.Linear(4, 5), nn.BatchNorm1d(5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first_norm(self.first(x)))
        x = torch.relu(x + self.second_norm(self.second(x)))
        x = self.dropout(torch.sigmoid(x.mean((2, 3))))
        return torch.relu(self.norm(self.linear(x)))


class Stages(NamedTuple):
    sites: list[str]  # of fake quantizers, after prepare_qat_pt2e
    skipped: list[Skipped]
    weights: list[Tensor]  # of the first layer, before and after two steps of training
    trained: Tensor  # what the trained model computes
    converted: GraphModule


@pytest.fixture(scope="module")
def stages() -> Stages:
    torch.manual_seed(0)
    quantizer = VpuQuantizer(is_qat=True)
    prepared = prepare_qat_pt2e(export(Net().train(), INPUTS), quantizer)
    sites = observer_sites(prepared)
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.1)
    weights = [prepared.get_parameter("first.weight").detach().clone()]
    for _ in range(2):
        optimizer.zero_grad()
        prepared(*INPUTS).square().mean().backward()
        optimizer.step()
    weights.append(prepared.get_parameter("first.weight").detach().clone())
    move_exported_model_to_eval(prepared)
    with torch.no_grad():
        trained = prepared(*INPUTS)
        converted = convert_pt2e(prepared)
        return Stages(sites, quantizer.skipped, weights, trained, export(converted, INPUTS))


def test_everything_is_annotated(stages: Stages) -> None:
    assert stages.skipped == []


def test_nothing_is_fake_quantized_inside_a_unit(stages: Stages) -> None:
    # torchao has put its own arithmetic between a convolution and its batch norm.
    readers = [site.split(" -> ")[1] for site in stages.sites]
    assert [reader for reader in readers if reader.startswith("batch_norm")] == ["batch_norm_2"]
    assert "add -> relu_1" not in stages.sites and "relu -> conv2d_3, add" in stages.sites


def test_gradients_reach_the_weights(stages: Stages) -> None:
    assert not torch.equal(*stages.weights)


def test_the_trained_model_consists_of_units_only(stages: Stages) -> None:
    assert unit_names(stages.converted) == [
        "conv2d+relu",
        "conv2d+add+relu",
        "mean",
        "sigmoid",
        "dropout",
        "linear",
        "batch_norm+relu",
    ]
    left_out = [name for name in cpu_reasons(stages.converted) if not name.startswith("add_")]
    assert left_out == []  # add_ counts the batches


def test_the_converted_model_computes_what_was_trained(stages: Stages) -> None:
    with torch.no_grad():
        error = (stages.converted(*INPUTS) - stages.trained).abs().max()
    nodes = reversed(stages.converted.graph.nodes)
    step = next(node.args[1] for node in nodes if is_dequantize(node))
    assert error < 2.5 * step < stages.trained.abs().max() / 4


class Viewed(nn.Module):
    """Two ways to flatten, one of which names the batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.first, self.second = ConvBnReLU(3, 4), nn.Linear(120, 8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.block(x)
        return self.second(torch.relu(self.first(x.view(x.size(0), -1))).flatten(1))


def test_trained_at_one_batch_size_and_deployed_at_another() -> None:
    torch.manual_seed(0)
    batch = ({0: torch.export.Dim.DYNAMIC},)
    exported = torch.export.export(
        Viewed().train(), (torch.randn(8, 3, 6, 5),), dynamic_shapes=batch
    )
    quantizer = VpuQuantizer(is_qat=True)
    prepared = prepare_qat_pt2e(exported.module(), quantizer)
    assert quantizer.skipped == []
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.1)
    for size in (8, 3):  # the last batch of an epoch
        optimizer.zero_grad()
        prepared(torch.randn(size, 3, 6, 5)).square().mean().backward()
        optimizer.step()
    move_exported_model_to_eval(prepared)
    converted = convert_pt2e(prepared)
    one = (torch.randn(1, 3, 6, 5),)
    program = torch.export.export(converted, one)
    report = partition_report(program)
    assert report.reasons == {} and len(report.subgraphs) == 1
    edge = to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()])
    [actual] = run_pte(edge.to_executorch().buffer, one)
    with torch.no_grad():
        assert sqnr_db(converted(*one), actual) > 30
