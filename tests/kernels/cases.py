"""Random single instructions, one strategy per instruction class: data for the kernel tests.

To add an instruction, add its strategy here; `test_instructions.py` says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from executorch_vpu.backend.ops.softmax import ONE
from executorch_vpu.backend.program import (
    Argument,
    Buffer,
    DType,
    Instruction,
    Step,
    Storage,
    Tensor,
    VpuProgram,
    Windows,
)

Shape = tuple[int, ...]
Draw = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Value:
    """An operand. Constants are in the program, the others the program's inputs."""

    data: NDArray[Any]
    zero_point: int = 0
    constant: bool = False


@dataclass(frozen=True)
class Case:
    """One instruction and its operands, which may be one value twice. `tables` are what a Concat's
    parts go through."""

    instruction: Instruction
    inputs: Sequence[Value]
    shape: Shape
    dtype: DType = DType.INT8
    zero_point: int = 0
    tables: Sequence[NDArray[Any] | None] = field(default=())

    def program(self) -> VpuProgram:
        """The instruction between the program's inputs and its output."""
        program = VpuProgram()
        for value in self.values():
            tensor = _tensor(value, len(program.inputs))
            if not value.constant:
                order = tuple(range(len(tensor.shape)))
                program.inputs.append(Argument(len(program.tensors), tensor.shape, order))
            program.tensors.append(tensor)
        output = len(program.tensors)
        buffer = Buffer(Storage.OUTPUT, prod(self.shape) * self.dtype.numpy.itemsize)
        program.tensors.append(Tensor(buffer, self.dtype, self.shape, 1.0, self.zero_point))
        program.outputs.append(Argument(output, self.shape, tuple(range(len(self.shape)))))
        instruction = self.instruction
        if self.tables:
            indices = []
            for table in self.tables:
                indices.append(-1 if table is None else len(program.tensors))
                if table is not None:
                    program.tensors.append(_tensor(Value(table, constant=True), 0))
            instruction = replace(instruction, tables=tuple(indices))  # type: ignore[call-arg]
        operands = tuple(self.values().index(value) for value in self.inputs)
        program.steps.append(Step(instruction, operands, output))
        return program

    def values(self) -> list[Value]:
        """The inputs, each once."""
        return list(dict.fromkeys(self.inputs))

    def arguments(self) -> list[NDArray[Any]]:
        """What to run the program on."""
        return [value.data for value in self.values() if not value.constant]


def _tensor(value: Value, position: int) -> Tensor:
    data = value.data.copy()
    dtype = next(d for d in DType if d.numpy == data.dtype)
    if value.constant:
        buffer = Buffer(Storage.CONSTANT, data.nbytes, data=data)
    else:
        buffer = Buffer(Storage.INPUT, data.nbytes, position)
    return Tensor(buffer, dtype, data.shape, 1.0, value.zero_point)


STRATEGIES: dict[str, st.SearchStrategy[Case]] = {}


def strategy(name: str) -> Callable[[Callable[[Draw], Case]], None]:
    """Registers a function of `draw` as the strategy of an instruction class."""

    def register(function: Callable[[Draw], Case]) -> None:
        STRATEGIES[name] = st.composite(function)()

    return register


def make(name: str, *args: Any, **fields: Any) -> Instruction:
    return Instruction.classes[name](*args, **fields)


# ---- What the strategies are made of.

zero_points = st.sampled_from([-128, -127, -3, 0, 1, 126, 127])
# Powers of two make products that lie exactly between two integers.
multipliers = st.one_of(
    st.sampled_from([0.0, 0.5, 0.25, 0.125, -0.5, 2.0**-10, 1.0, 1e18, -1e18, 1e-30]),
    st.floats(-6, 0).map(lambda e: float(np.float32(10.0**e))),
)


def clamp(draw: Draw) -> tuple[int, int]:
    low, high = sorted((draw(st.integers(-128, 127)), draw(st.integers(-128, 127))))
    return draw(st.sampled_from([(-128, 127), (low, high), (low, low)]))


def generator(draw: Draw) -> np.random.Generator:
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


def codes(draw: Draw, shape: Sequence[int], low: int = -128) -> NDArray[np.int8]:
    """Random int8 values, or only the outermost ones."""
    rng = generator(draw)
    if draw(st.integers(0, 3)) == 0:
        return rng.choice(np.array([low, 127], np.int8), tuple(shape))
    return rng.integers(low, 128, tuple(shape), np.int8)


def activation(draw: Draw, shape: Sequence[int]) -> Value:
    return Value(codes(draw, shape), draw(zero_points), constant=draw(st.integers(0, 4)) == 0)


def shapes(draw: Draw, least: int = 0, most: int = 5) -> Shape:
    """Small in every dimension, or in all but one: up to enough elements for several tasks."""
    shape = draw(st.lists(st.integers(1, 5), min_size=least, max_size=most))
    if shape and draw(st.booleans()):
        elements = draw(st.sampled_from([16, 17, 63, 64, 300, 5000, 150_000]))
        shape[draw(st.integers(0, len(shape) - 1))] = -(-elements // prod(shape))
    return tuple(shape)


channels = st.sampled_from([1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65, 96, 128, 130])
# Height and width: a pixel, a row, a column, and up to enough for several tasks.
images = st.sampled_from([(1, 1), (1, 57), (20, 1), (2, 5), (3, 9), (8, 14), (20, 57), (40, 40)])


def weighted(
    draw: Draw, x: Value, weight_shape: Shape, out_shape: Shape
) -> tuple[list[Value], float]:
    """The operands of Conv2d and Linear, and the residual's multiplier."""
    rng = generator(draw)
    weight = codes(draw, weight_shape, low=-127)
    magnitude = np.abs(weight.astype(np.int64)).reshape(len(weight), -1).sum(1)
    room = np.minimum(2**31 - 1 - magnitude * 255, draw(st.sampled_from([0, 1000, 2**31 - 1])))
    bias = rng.integers(-room, room, endpoint=True)
    exact = draw(st.booleans())  # ties: products that lie exactly between two integers
    typical = 2.0 ** rng.integers(-14, 0, len(weight)) if exact else rng.random(len(weight)) / 500
    inputs = [
        x,
        Value(weight, constant=True),
        Value(bias.astype(np.int32), constant=True),
        Value(typical.astype(np.float32), constant=True),
    ]
    if draw(st.booleans()):
        return inputs, 0.0
    same = x.data.shape == out_shape and draw(st.booleans())
    return [*inputs, x if same else activation(draw, out_shape)], draw(multipliers)


# ---- The instructions.


@strategy("Quantize")
def _(draw: Draw) -> Case:
    x = generator(draw).normal(0, 100, shapes(draw)).astype(np.float32)
    special = np.array([0.5, 1.5, -0.5, 2.5, np.nan, np.inf, -np.inf, 3e38, -0.0, 1e-45])
    chosen = generator(draw).choice(special, x.shape)
    x = np.where(generator(draw).random(x.shape) < 0.3, chosen, x).astype(np.float32)
    perm = tuple(draw(st.permutations(range(x.ndim))))
    return Case(
        make("Quantize", perm, draw(multipliers.filter(bool))),
        [Value(x, constant=draw(st.booleans()))],
        tuple(x.shape[d] for d in perm),
        zero_point=draw(zero_points),
    )


@strategy("Dequantize")
def _(draw: Draw) -> Case:
    x = activation(draw, shapes(draw))
    perm = tuple(draw(st.permutations(range(x.data.ndim))))
    shape = tuple(x.data.shape[d] for d in perm)
    return Case(make("Dequantize", perm, draw(multipliers)), [x], shape, DType.FLOAT32)


@strategy("Transpose")
def _(draw: Draw) -> Case:
    x = activation(draw, shapes(draw))
    perm = tuple(draw(st.permutations(range(x.data.ndim))))
    return Case(make("Transpose", perm), [x], tuple(x.data.shape[d] for d in perm))


def _axis(draw: Draw, size: int, usual: bool) -> tuple[int, int, int, int, int]:
    """taps, stride, padding before, dilation, outputs. Windows that are not the usual ones may lie
    outside altogether."""
    if usual:
        taps, stride, before, after, dilation = 3, draw(st.integers(1, 2)), 1, 1, 1
    else:
        taps, stride, before, after = (draw(st.integers(low, 4)) for low in (1, 1, 0, 0))
        dilation = draw(st.integers(1, 3))
    room = size + before + after - (taps - 1) * dilation - 1
    return taps, stride, before, dilation, max(room, 0) // stride + 1


@strategy("Conv2d")
def _(draw: Draw) -> Case:
    h, w = draw(images)
    usual = draw(st.booleans())
    kh, stride_h, top, dilation_h, oh = _axis(draw, h, usual)
    kw, stride_w, left, dilation_w, ow = _axis(draw, w, usual)
    kind = draw(st.sampled_from(["dense", "dense", "depthwise", "grouped"]))
    if kind == "grouped":
        groups = draw(st.sampled_from([2, 3, 5, 32]))
        # Up to more outputs than groups are computed together with.
        c = groups * draw(st.sampled_from([1, 2, 4, 9]))
        o = groups * draw(st.sampled_from([1, 2, 4, 9, 40]))
    else:
        c = draw(channels)
        groups = c if kind == "depthwise" else 1
        o = draw(st.sampled_from([c, 2 * c]) if kind == "depthwise" else st.just(c) | channels)
    out = (draw(st.integers(1, 2)), oh, ow, o)
    x = activation(draw, (out[0], h, w, c))
    inputs, residual = weighted(draw, x, (o, kh, kw, c // groups), out)
    geometry = (stride_h, stride_w, top, left, dilation_h, dilation_w, groups)
    conv = make("Conv2d", *geometry, residual, *clamp(draw))
    return Case(conv, inputs, out, zero_point=draw(zero_points))


@strategy("Linear")
def _(draw: Draw) -> Case:
    k = draw(channels)
    n = draw(st.just(k) | channels)
    leading = draw(st.sampled_from([(), (1,), (2, 3), (31,), (2, 200), (900,)]))
    inputs, residual = weighted(draw, activation(draw, (*leading, k)), (n, k), (*leading, n))
    linear = make("Linear", residual, *clamp(draw))
    return Case(linear, inputs, (*leading, n), zero_point=draw(zero_points))


def broadcast(draw: Draw, shape: Shape) -> Shape:
    """The shape with some sizes 1, which broadcasts to it."""
    return tuple(1 if draw(st.integers(0, 3)) == 0 else size for size in shape)


@strategy("MatMul")
def _(draw: Draw) -> Case:
    m, k, n = draw(channels | st.just(700)), draw(channels), draw(channels)
    leading = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    a, b = broadcast(draw, leading), broadcast(draw, leading)
    out = (*np.broadcast_shapes(a, b), m, n)
    return Case(
        make("MatMul", draw(multipliers), *clamp(draw)),
        [activation(draw, (*a, m, k)), activation(draw, (*b, k, n))],
        out,
        zero_point=draw(zero_points),
    )


def _binary(draw: Draw, name: str, count: int) -> Case:
    shape = shapes(draw)
    a = activation(draw, broadcast(draw, shape))
    b = a if draw(st.integers(0, 4)) == 0 else activation(draw, broadcast(draw, shape))
    return Case(
        make(name, *(draw(multipliers) for _ in range(count)), *clamp(draw)),
        [a, b],
        np.broadcast_shapes(a.data.shape, b.data.shape),
        zero_point=draw(zero_points),
    )


@strategy("Add")
def _(draw: Draw) -> Case:
    return _binary(draw, "Add", 2)


@strategy("Mul")
def _(draw: Draw) -> Case:
    return _binary(draw, "Mul", 1)


@strategy("Lookup")
def _(draw: Draw) -> Case:
    x = activation(draw, shapes(draw))
    return Case(make("Lookup"), [x, activation(draw, [256])], x.data.shape)


def windows(draw: Draw, size: int) -> Windows:
    """Any windows of an axis, also such as no pooling has."""
    begin = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=7))
    end = [draw(st.integers(first + 1, size)) for first in begin]
    return Windows(begin, end, draw(st.integers(1, 3)))


def _pooled(draw: Draw) -> tuple[Value, Windows, Windows, Shape]:
    shape = (draw(st.integers(1, 2)), *draw(images), draw(channels))
    rows, columns = windows(draw, shape[1]), windows(draw, shape[2])
    out = (shape[0], len(rows), len(columns), shape[3])
    return activation(draw, shape), rows, columns, out


@strategy("MaxPool2d")
def _(draw: Draw) -> Case:
    x, rows, columns, out = _pooled(draw)
    return Case(make("MaxPool2d", rows, columns), [x], out)


@strategy("AvgPool2d")
def _(draw: Draw) -> Case:
    x, rows, columns, out = _pooled(draw)
    divisors = [
        tuple(draw(st.integers(1, 9)) for _ in range(len(windows))) for windows in (rows, columns)
    ]
    pool = make("AvgPool2d", rows, columns, *divisors, draw(multipliers), *clamp(draw))
    return Case(pool, [x], out, zero_point=draw(zero_points))


@strategy("Mean")
def _(draw: Draw) -> Case:
    x = activation(draw, shapes(draw))
    rank = x.data.ndim
    axes = tuple(d for d in range(rank) if draw(st.booleans()))
    kept = [1 if d in axes else size for d, size in enumerate(x.data.shape)]
    if draw(st.booleans()):
        kept = [size for d, size in enumerate(kept) if d not in axes]
    mean = make("Mean", axes, draw(multipliers), *clamp(draw))
    return Case(mean, [x], tuple(kept), zero_point=draw(zero_points))


@strategy("Concat")
def _(draw: Draw) -> Case:
    shape = shapes(draw, least=1)
    axis = draw(st.integers(0, len(shape) - 1))
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 64, 70]), min_size=1, max_size=4))
    parts = [activation(draw, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]
    tables = [codes(draw, [256]) if draw(st.booleans()) else None for _ in parts]
    out = (*shape[:axis], sum(sizes), *shape[axis + 1 :])
    return Case(make("Concat", axis, ()), parts, out, tables=tables)


@strategy("Slice")
def _(draw: Draw) -> Case:
    x = activation(draw, shapes(draw))
    begin, step, out = [], [], []
    for size in x.data.shape:
        begin.append(draw(st.integers(0, size - 1)))
        step.append(draw(st.sampled_from([1, 1, 2, 3, -1, -2, 0])))
        room = begin[-1] if step[-1] < 0 else size - 1 - begin[-1]
        most = 3 if step[-1] == 0 else room // abs(step[-1]) + 1
        out.append(draw(st.sampled_from([1, most])))
    return Case(make("Slice", tuple(begin), tuple(step)), [x], tuple(out))


@strategy("Pad")
def _(draw: Draw) -> Case:
    x = activation(draw, shapes(draw))
    before = tuple(draw(st.sampled_from([0, 0, 1, 3, -1, -7])) for _ in x.data.shape)
    after = tuple(draw(st.sampled_from([0, 0, 1, 3, -1, -7])) for _ in x.data.shape)
    out = tuple(
        max(size + b + a, 1) for size, b, a in zip(x.data.shape, before, after, strict=True)
    )
    return Case(make("Pad", before, draw(st.integers(-128, 127))), [x], out)


@strategy("Softmax")
def _(draw: Draw) -> Case:
    x = activation(draw, shapes(draw, least=1))
    axis = draw(st.integers(0, x.data.ndim - 1))
    steepness = draw(st.sampled_from([0.0, 0.001, 0.1, 1.0, 100.0]))
    exponentials = np.rint(np.exp(-np.arange(256) * steepness) * ONE).astype(np.int32)
    return Case(
        make("Softmax", axis, draw(st.sampled_from([256.0, 100.0, 1e6, 1.0]))),
        [x, Value(exponentials, constant=True)],
        x.data.shape,
        zero_point=draw(zero_points),
    )


@strategy("BatchNorm")
def _(draw: Draw) -> Case:
    x = activation(draw, shapes(draw, least=1))
    axis = draw(st.integers(0, x.data.ndim - 1))
    size = x.data.shape[axis]
    rng = generator(draw)
    multiplier = rng.choice([0.5, -0.25, 0.1, 3.0, 0.0, 1e18], size).astype(np.float32)
    offset = rng.choice([0.0, 0.5, -3.25, 40.1, -1e18], size).astype(np.float32)
    return Case(
        make("BatchNorm", axis, *clamp(draw)),
        [x, Value(multiplier, constant=True), Value(offset, constant=True)],
        x.data.shape,
        zero_point=draw(zero_points),
    )


def examples(name: str, count: int) -> list[Case]:
    """Cases of an instruction, the same ones every time."""
    drawn: list[Case] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=STRATEGIES[name])
    def draw(case: Case) -> None:
        drawn.append(case)

    draw()
    return drawn
