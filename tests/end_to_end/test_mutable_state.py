"""Buffers the model writes to, step by step in ExecuTorch's runtime."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime
from torch import Tensor, nn
from torch.fx import GraphModule

import executorch_vpu.runtime  # noqa: F401
from executorch_vpu import VpuPartitioner
from tests.support.pipeline import Inputs, delegates, quantize, sqnr_db

STEPS, DB = 5, 35  # a step of int8 in the state stays there, and adds up

WRITES: dict[str, Callable[[Tensor, Tensor, Tensor], object]] = {
    "index_copy_": lambda cache, at, new: cache.index_copy_(1, at, new),
    "index_put_": lambda cache, at, new: cache.index_put_((torch.tensor([0]), at), new[:, 0]),
    "assigned at an index": lambda cache, at, new: cache.__setitem__((slice(None), at), new),
    "assigned to a slice": lambda cache, at, new: cache[:, 2:3].copy_(new),
    "copy_": lambda cache, at, new: cache.copy_(torch.cat([cache[:, 1:], new], 1)),
    "add_": lambda cache, at, new: cache.add_(new),
    "decayed": lambda cache, at, new: cache.mul_(0.5).add_(new),
}


class Cache(nn.Module):
    """A VPU op's result written to a buffer, which a VPU op reads through views."""

    def __init__(self, write: Callable[[Tensor, Tensor, Tensor], object]) -> None:
        super().__init__()
        self.key, self.out, self.write = nn.Linear(6, 6), nn.Linear(8, 5), write
        self.cache: Tensor
        self.register_buffer("cache", torch.zeros(1, 8, 6))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.write(self.cache, at, self.key(x))
        return torch.relu(self.out(self.cache.view(8, 6).t()))


class Attention(nn.Module):
    """One token at a time against a cache of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.keys: Tensor
        self.values: Tensor
        self.register_buffer("keys", torch.zeros(1, 2, 6, 4))
        self.register_buffer("values", torch.zeros(1, 2, 6, 4))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (2, 4)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        self.keys.index_copy_(2, at, key)
        self.values[:, :, at] = value
        scores = (query @ self.keys.transpose(-1, -2)) * 0.5
        return self.out((scores.softmax(-1) @ self.values).transpose(1, 2).flatten(2))


class Streaming(nn.Module):
    """A convolution over a stream that comes in chunks: the last two samples are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 5, 3)
        self.kept: Tensor
        self.register_buffer("kept", torch.zeros(1, 8, 2))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        chunk = torch.cat([self.kept, torch.relu(x.reshape(1, 8, -1))], -1)
        self.kept.copy_(chunk[:, :, -2:])
        return torch.relu(self.conv(chunk))


def step(i: int, width: int) -> Inputs:
    x = torch.randn(1, 1, width, generator=torch.Generator().manual_seed(i))
    return x, torch.tensor([i % 6])


def quantized_from_zero(model: nn.Module, width: int) -> GraphModule:
    """The Q/DQ graph, its buffers as they were before calibration."""
    quantized = quantize(model, step(0, width), [step(i, width) for i in range(4)])
    for name, _ in model.named_buffers():
        quantized.get_buffer(name).zero_()
    return quantized


def check_steps(model: nn.Module, width: int, boundary: str) -> None:
    with torch.no_grad():  # to_executorch needs it for buffers that change
        quantized = quantized_from_zero(model.eval(), width)
        program = torch.export.export(quantized, step(0, width))
        partitioner = [VpuPartitioner(boundary=boundary)]  # type: ignore[arg-type]
        edge = to_edge_transform_and_lower(program, partitioner=partitioner)
        assert delegates(edge)
        loaded = Runtime.get().load_program(edge.to_executorch().buffer)
        method = loaded.load_method("forward")
        assert method is not None
        for i in range(STEPS):
            inputs = step(i, width)
            expected, [actual] = quantized(*inputs), method.execute(list(inputs))
            assert expected.abs().max() > 0
            assert sqnr_db(expected, actual) > DB, f"step {i}"


@pytest.mark.parametrize("write", WRITES)
def test_a_buffer_keeps_what_was_written_to_it(write: str) -> None:
    torch.manual_seed(0)
    check_steps(Cache(WRITES[write]), 6, "float")


@pytest.mark.parametrize("boundary", ["float", "int8"])
def test_attention_with_a_cache_computes_what_the_qdq_graph_computes(boundary: str) -> None:
    torch.manual_seed(0)
    check_steps(Attention(), 8, boundary)


def test_a_streaming_convolution_keeps_its_state() -> None:
    torch.manual_seed(0)
    check_steps(Streaming(), 40, "float")


class Writing(nn.Module):
    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.state: Tensor
        self.register_buffer("state", torch.zeros(1, 4, 6))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.state.index_copy_(1, at % 4, torch.relu(self.layer(x)))
        return self.state.view(4, 6).sum(0)


class Reading(Writing):
    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.state.mul_(1)  # a buffer is shared between the methods that write to it
        return self.layer(self.state.view(4, 6) + x[0])


def test_methods_share_a_state() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(6, 6)
    with torch.no_grad():
        write, read = (quantized_from_zero(m(layer).eval(), 6) for m in (Writing, Reading))
        programs = {
            name: torch.export.export(m, step(0, 6))
            for name, m in (("write", write), ("read", read))
        }
        edge = to_edge_transform_and_lower(programs, partitioner=[VpuPartitioner()])
        plan = MemoryPlanningPass(alloc_graph_input=False, share_mutable_buffers=True)
        buffer = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=plan)).buffer
        loaded = Runtime.get().load_program(buffer)
        methods = {name: loaded.load_method(name) for name in programs}
        for i in range(STEPS):
            inputs = step(i, 6)
            read.get_buffer("state").copy_(write.get_buffer("state"))
            for name, module in (("write", write), ("read", read)):
                method = methods[name]
                assert method is not None
                expected, [actual] = module(*inputs), method.execute(list(inputs))
                assert sqnr_db(expected, actual) > 30, f"{name}, step {i}"
                read.get_buffer("state").copy_(write.get_buffer("state"))
