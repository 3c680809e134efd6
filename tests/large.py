"""Q/DQ graphs of any size and shape, written node by node: exporting thousands of ops takes
minutes, and what they compute does not matter here."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from executorch_vpu.backend.constants import _KEY
from executorch_vpu.backend.units import DEQUANTIZE, DEQUANTIZE_PER_CHANNEL, QUANTIZE

aten = torch.ops.aten
SHAPE = (1, 4, 5, 5)


class Maker:
    """Appends nodes to `graph`; values are on the meta device, constants hang on their nodes."""

    def __init__(self) -> None:
        self.graph = Graph()

    def input(self) -> Node:
        return self._valued(self.graph.placeholder("x"), SHAPE)

    def constant(self, data: torch.Tensor) -> Node:
        node = self._valued(self.graph.placeholder("c"), data.shape, data.dtype)
        node.meta[_KEY] = data
        return node

    def call(self, target: Any, *args: Any, shape: Sequence[int] = SHAPE) -> Node:
        return self._valued(self.graph.call_function(target, args), shape)

    def quantize(self, node: Node) -> Node:
        shape = node.meta["val"].shape
        call = self.graph.call_function(QUANTIZE, (node, 0.05, 0, -128, 127, torch.int8))
        return self._valued(call, shape, torch.int8)

    def dequantize(self, node: Node) -> Node:
        args = (node, 0.05, 0, -128, 127, torch.int8)
        return self.call(DEQUANTIZE, *args, shape=node.meta["val"].shape)

    def unit(self, target: Any, *sources: Node) -> Node:
        return self.quantize(self.call(target, *map(self.dequantize, sources)))

    def on_cpu(self, source: Node) -> Node:
        """What the VPU does not have, from int8 to int8."""
        return self.quantize(self.call(aten.exp.default, self.dequantize(source)))

    def joined(self, parts: Sequence[Node]) -> Node:
        shape = (1, 4 * len(parts), 5, 5)
        return self.quantize(
            self.call(aten.cat.default, [self.dequantize(part) for part in parts], 1, shape=shape)
        )

    def conv(self, source: Node, residual: Node | None = None) -> Node:
        weight = self.constant(torch.randint(-127, 128, (4, 4, 3, 3), dtype=torch.int8))
        scales, zeros = (
            self.constant(torch.rand(4) / 100 + 1e-3),
            self.constant(torch.zeros(4).long()),
        )
        args = (weight, scales, zeros, 0, -127, 127, torch.int8)
        weight = self.call(DEQUANTIZE_PER_CHANNEL, *args, shape=(4, 4, 3, 3))
        bias = self.constant(torch.randn(4))
        x = self.call(aten.conv2d.default, self.dequantize(source), weight, bias, [1, 1], [1, 1])
        if residual is not None:
            x = self.call(aten.add.Tensor, x, self.dequantize(residual))
        return self.quantize(self.call(aten.relu.default, x))

    def finish(self, *results: Node) -> Graph:
        """The graph, which gives these values in float."""
        self.graph.output(tuple(self.dequantize(result) for result in results))
        return self.graph

    def _valued(self, node: Node, shape: Sequence[int], dtype: Any = torch.float32) -> Node:
        node.meta["val"] = torch.empty(tuple(shape), dtype=dtype, device="meta")
        return node


def chain(n: int) -> Graph:
    m = Maker()
    x = m.quantize(m.input())
    for _ in range(n):
        x = m.unit(aten.tanh.default, x)
    return m.finish(x)


def residual_blocks(n: int) -> Graph:
    m = Maker()
    x = m.quantize(m.input())
    for _ in range(n // 5):
        x = m.conv(m.conv(x), residual=x)
    return m.finish(x)


def concat(n: int) -> Graph:
    """One value read by all but one, all of which live at once."""
    m = Maker()
    x = m.quantize(m.input())
    return m.finish(m.joined([m.unit(aten.tanh.default, x) for _ in range(n - 1)]))


def inputs_and_outputs(n: int) -> Graph:
    """As many inputs, joined, and as many outputs of one delegate."""
    m = Maker()
    x = m.joined([m.quantize(m.input()) for _ in range(n // 2)])
    outputs = [x]
    for _ in range(n // 2):
        outputs.append(m.unit(aten.tanh.default, outputs[-1]))
    return m.finish(*outputs)


def skips(n: int) -> Graph:
    """Every op reads one that is up to 100 before it: buffers live for any length of time."""
    m, rng = Maker(), random.Random(0)
    values = [m.quantize(m.input())]
    for _ in range(n):
        values.append(m.unit(aten.add.Tensor, values[-1], rng.choice(values[-100:])))
    return m.finish(values[-1])


def towers(n: int) -> Graph:
    """As many subgraphs as branches, which read one value, and are joined."""
    m = Maker()
    x = m.quantize(m.input())
    return m.finish(m.joined([m.on_cpu(m.unit(aten.tanh.default, x)) for _ in range(n // 2)]))


def alternating(n: int) -> Graph:
    """VPU and CPU in turn; a value from the CPU is read in every subgraph."""
    m = Maker()
    x = everywhere = m.on_cpu(m.quantize(m.input()))
    for _ in range(n // 2):
        x = m.on_cpu(m.unit(aten.add.Tensor, x, everywhere))
    return m.finish(x)


def detours(n: int) -> Graph:
    """Every subgraph feeds the next, both directly and over the CPU."""
    m = Maker()
    x = m.quantize(m.input())
    for _ in range(n // 3):
        y = m.unit(aten.tanh.default, x)
        x = m.unit(aten.add.Tensor, y, m.on_cpu(y))
    return m.finish(x)


def feeds_and_sinks(n: int) -> Graph:
    """A chain that takes an input from the CPU at every step, and gives the CPU an output."""
    m = Maker()
    x = m.quantize(m.input())
    outputs = []
    for _ in range(n // 3):
        x = m.unit(aten.add.Tensor, x, m.on_cpu(m.quantize(m.input())))
        outputs.append(m.on_cpu(x))
    return m.finish(x, *outputs)


def in_place(n: int) -> Graph:
    """Calls that write to one tensor, one after the other."""
    m = Maker()
    x = m.call(aten.exp.default, m.input())
    for _ in range(n):
        x = m.call(aten.relu_.default, x)
    return m.finish(m.quantize(x))


Shape = Callable[[int], Graph]

ON_THE_VPU: list[Shape] = [chain, residual_blocks, concat, inputs_and_outputs, skips]
"""One subgraph, nothing on the CPU."""

SHAPES = [*ON_THE_VPU, towers, alternating, detours, feeds_and_sinks, in_place]
