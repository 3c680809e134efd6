"""Lowering: from the units of a Q/DQ graph to a VpuProgram.

The builder keeps, for every int8 value of the graph, the tensors that hold it, one per layout asked
for. An op asks for its inputs in the layout it wants; a transposition appears only where a value is
not stored that way yet. Boundary quantizes and dequantizes take the layout change with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Graph, Node

from .arguments import shape_of
from .constants import constant_of, is_constant
from .layout import Layout, channels_last, contiguous, physical, same_storage, transposition
from .memory import plan_arena
from .numerics import QParams, multiplier, requantize_table
from .ops.dequantize import Dequantize
from .ops.lookup import Lookup, lower_requantize
from .ops.quantize import Quantize
from .ops.transpose import Transpose
from .program import Argument, Buffer, DType, Instruction, Step, Storage, Tensor, VpuProgram
from .table import OpTable
from .units import Unit, find_units, is_dequantize, is_quantize, qparams


@dataclass
class _Value:
    """A value of the graph and the tensors that hold it."""

    shape: tuple[int, ...]
    qparams: QParams
    tensors: dict[Layout, int] = field(default_factory=dict)


class LoweringError(RuntimeError):
    """The graph given to preprocess is not what the partitioner plans: a bug, no user's error."""


class ProgramBuilder:
    """Builds one VpuProgram. Ops use `input`, `constant`, `emit`, `define` and `alias`."""

    def __init__(self, debug_id: Callable[[Sequence[Node]], int] = lambda nodes: -1) -> None:
        """`debug_id` gives an instruction's delegate debug identifier from its source nodes."""
        self.program = VpuProgram()
        self._debug_id = debug_id
        self._values: dict[Node, _Value] = {}
        self._float_inputs: dict[Node, Argument] = {}
        self._sources: tuple[Node, ...] = ()
        self._name = ""

    # -- what ops use ---------------------------------------------------------------------------

    def layout(self, node: Node) -> Layout:
        """The layout an int8 value is stored in already (the first, if in several)."""
        value = self._value(node)
        if not value.tensors:  # a float input that nothing has asked for yet
            rank = len(value.shape)
            return channels_last(rank) if rank == 4 else contiguous(rank)
        return next(iter(value.tensors))

    def common_layout(self, nodes: Sequence[Node]) -> Layout:
        """The layout of the largest of some values, a computed one before a constant: what costs
        least to have all of them in."""
        return self.layout(max(nodes, key=lambda n: (not is_constant(n), prod(shape_of(n)))))

    def input(self, node: Node, layout: Layout) -> int:
        """The tensor holding an int8 value in `layout`, transposed on demand."""
        value = self._value(node)
        for held, tensor in value.tensors.items():
            if held == layout:
                return tensor
            if same_storage(value.shape, held, layout):
                value.tensors[layout] = self.view(tensor, physical(value.shape, layout))
                return value.tensors[layout]
        if not value.tensors:
            tensor = self._quantized_input(node, value, layout)
        else:
            held, source = next(iter(value.tensors.items()))
            tensor = self._transposed(source, value, held, layout)
        value.tensors[layout] = tensor
        return tensor

    def shared_input(self, unit: Unit, layout: Layout) -> int:
        """The first operand of an op whose output shares its parameters. Where a graph has given
        the output others (an op the quantizer did not annotate), the operand is taken to them."""
        source, output = unit.sources[0], unit.output_qparams
        tensor = self.input(source, layout)
        if unit.input_qparams(0) == output:
            return tensor
        table = self.constant(requantize_table(unit.input_qparams(0), output))
        return self.emit(Lookup(), [tensor, table], physical(shape_of(source), layout), output)

    def constant(self, data: NDArray) -> int:
        """A constant tensor; int8, int32 or float32."""
        dtype = next(t for t in DType if t.numpy == data.dtype)
        data = np.asarray(data, order="C")
        return self._tensor(
            Tensor(Buffer(Storage.CONSTANT, data.nbytes, data=data), dtype, data.shape)
        )

    def emit(
        self, instruction: Instruction, inputs: Sequence[int], shape: Sequence[int], q: QParams
    ) -> int:
        """Appends an instruction with a fresh int8 arena tensor of physical `shape` as output."""
        shape = tuple(shape)
        buffer = Buffer(Storage.ARENA, int(np.prod(shape, dtype=np.int64)))
        output = self._tensor(Tensor(buffer, DType.INT8, shape, q.scale, q.zero_point, self._name))
        self._append(instruction, inputs, output)
        return output

    def define(self, unit: Unit, tensor: int, layout: Layout) -> None:
        """Says which tensor holds the unit's output, and in which layout."""
        value = _Value(shape_of(unit.quantize), unit.output_qparams, {layout: tensor})
        self._values[unit.quantize] = value
        self.program.tensors[tensor].name = unit.quantize.name
        self.program.values[unit.quantize.name] = (tensor, layout)

    def alias(self, unit: Unit, tensor: int, layout: Layout) -> None:
        """Like `define`, for an output that is `tensor`'s memory under another shape."""
        shape = physical(shape_of(unit.quantize), layout)
        self.define(unit, self.view(tensor, shape), layout)

    def view(self, source: int, shape: Sequence[int]) -> int:
        """A tensor of the same memory under another physical shape."""
        t = self.tensor(source)
        if t.shape == tuple(shape):
            return source
        data = t.buffer.data
        if data is not None:
            return self._constant_like(source, data.reshape(shape))
        return self._tensor(Tensor(t.buffer, t.dtype, tuple(shape), t.scale, t.zero_point, t.name))

    def tensor(self, index: int) -> Tensor:
        return self.program.tensors[index]

    # -- the graph ------------------------------------------------------------------------------

    def lower(self, graph: Graph, ops: OpTable) -> VpuProgram:
        """Lowers a graph that consists of units and of boundary quantizes and dequantizes."""
        units = {unit.quantize: unit for unit in find_units(graph, ops).units}
        for node in graph.nodes:
            if node.op == "placeholder" and constant_of(node) is None:
                self._add_input(node)
            elif node in units:
                self._lower_unit(units[node])
            elif is_quantize(node) and node.all_input_nodes[0] in self._float_inputs:
                self._values[node] = _Value(shape_of(node), qparams(node))
            elif node.op == "output":
                results = node.args[0]
                assert isinstance(results, (list, tuple))
                for position, result in enumerate(results):
                    self._add_output(position, result)
        plan_arena(self.program)
        return self.program

    def _lower_unit(self, unit: Unit) -> None:
        self._name, self._sources = unit.name, (*unit.nodes, unit.quantize)
        if unit.chain is None:
            lower_requantize(unit, self)
        else:
            unit.chain.op.lower(unit, self)
        if unit.quantize not in self._values:
            raise LoweringError(f"{unit.name} lowered to nothing")

    def _add_input(self, node: Node) -> None:
        dtype = {torch.int8: DType.INT8, torch.float32: DType.FLOAT32}.get(node.meta["val"].dtype)
        if dtype is None:
            raise LoweringError(f"input {node.name} is {node.meta['val'].dtype}")
        shape, order = shape_of(node), tuple(node.meta["val"].dim_order())
        q = QParams(1.0, 0)
        if dtype is DType.INT8:
            q = qparams(next(user for user in node.users if is_dequantize(user)))
        tensor = self._argument(Storage.INPUT, self.program.inputs, dtype, shape, order, q, node)
        if dtype is DType.INT8:
            self._values[node] = _Value(shape, q, {order: tensor})
            self.program.values[node.name] = (tensor, order)
        else:
            self._float_inputs[node] = self.program.inputs[-1]

    def _add_output(self, position: int, node: Node) -> None:
        shape, order = shape_of(node), tuple(node.meta["val"].dim_order())
        self._name = "dequantize" if is_dequantize(node) else "transpose"
        self._sources = (node,)
        if is_dequantize(node):
            source, q = node.all_input_nodes[0], qparams(node)
            held = self.layout(source)
            output = self._argument(
                Storage.OUTPUT, self.program.outputs, DType.FLOAT32, shape, order, q, node
            )
            perm = transposition(held, order)
            self._append(
                Dequantize(perm, float(np.float32(q.scale))), [self.input(source, held)], output
            )
            return
        value = self._value(node)
        tensor = self.input(node, order)
        buffer = self.tensor(tensor).buffer
        if buffer.storage is not Storage.ARENA:  # an input, a constant, or another output
            tensor = self._transposed(tensor, value, order, order)
            buffer = self.tensor(tensor).buffer
        buffer.storage, buffer.offset = Storage.OUTPUT, position
        self.program.outputs.append(Argument(tensor, shape, order))

    def _argument(
        self,
        storage: Storage,
        arguments: list[Argument],
        dtype: DType,
        shape: tuple[int, ...],
        order: Layout,
        q: QParams,
        node: Node,
    ) -> int:
        stored = physical(shape, order)
        nbytes = int(np.prod(stored, dtype=np.int64)) * dtype.numpy.itemsize
        buffer = Buffer(storage, nbytes, len(arguments))
        tensor = self._tensor(Tensor(buffer, dtype, stored, q.scale, q.zero_point, node.name))
        arguments.append(Argument(tensor, shape, order))
        return tensor

    # -- values ---------------------------------------------------------------------------------

    def _value(self, node: Node) -> _Value:
        if node not in self._values:
            data = constant_of(node)
            if data is None or data.dtype != torch.int8:
                raise LoweringError(f"{node.name} is not an int8 value of this subgraph")
            q = qparams(next(user for user in node.users if is_dequantize(user)))
            tensor = self.constant(data.contiguous().numpy())
            self.tensor(tensor).scale, self.tensor(tensor).zero_point = q
            shape = tuple(data.shape)
            self._values[node] = _Value(shape, q, {contiguous(len(shape)): tensor})
        return self._values[node]

    def _quantized_input(self, node: Node, value: _Value, layout: Layout) -> int:
        source = self._float_inputs[node.all_input_nodes[0]]
        quantize = Quantize(
            transposition(source.dim_order, layout), float(multiplier(1.0, value.qparams.scale))
        )
        saved, self._name, self._sources = (self._name, self._sources), "quantize", (node,)
        tensor = self.emit(quantize, [source.tensor], physical(value.shape, layout), value.qparams)
        self._name, self._sources = saved
        self.tensor(tensor).name = node.name
        self.program.values[node.name] = (tensor, layout)
        return tensor

    def _transposed(self, source: int, value: _Value, held: Layout, layout: Layout) -> int:
        perm = transposition(held, layout)
        data = self.tensor(source).buffer.data
        if data is not None:
            return self._constant_like(source, data.transpose(perm))
        return self.emit(Transpose(perm), [source], physical(value.shape, layout), value.qparams)

    def _constant_like(self, source: int, data: NDArray) -> int:
        tensor = self.constant(data)
        like = self.tensor(source)
        self.tensor(tensor).scale, self.tensor(tensor).zero_point = like.scale, like.zero_point
        return tensor

    def _tensor(self, tensor: Tensor) -> int:
        self.program.tensors.append(tensor)
        return len(self.program.tensors) - 1

    def _append(self, instruction: Instruction, inputs: Sequence[int], output: int) -> None:
        debug_id = self._debug_id(self._sources)
        self.program.steps.append(Step(instruction, tuple(inputs), output, debug_id, self._name))
