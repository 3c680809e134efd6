"""Layers as programs of one instruction: those of whole models, and convolutions of any size.

Their times are the instruction's own, taken in C++, on operands that are in the caches.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from executorch_vpu.backend.interpreter import VpuInterpreter
from executorch_vpu.backend.ops.conv2d import Conv2d
from executorch_vpu.backend.program import (
    Argument,
    Buffer,
    DType,
    Instruction,
    Step,
    Storage,
    Tensor,
    VpuProgram,
)
from executorch_vpu.backend.serialize import serialize

from .artifacts import EXECUTORCH, Artifact, vpu_sources

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Net:
    """A whole model's program."""

    blob: bytes
    layers: list[str]  # what each instruction is; "" where it multiplies nothing
    blobs: dict[str, bytes]  # each of these by itself


def load_net(model: str, directory: Path) -> Net:
    """Compiled once, then kept in the directory."""
    net: Net = pickle.loads(NET.get(model, directory).read_bytes())
    return net


def _make_net(model: str, path: Path) -> None:
    from executorch_vpu import VPU_OPS
    from executorch_vpu.backend.builder import ProgramBuilder
    from executorch_vpu.partitioner.plan import make_plan

    from .lowering import quantize

    program = ProgramBuilder().lower(make_plan(quantize(model, "vpu")).graph, VPU_OPS)
    blob = serialize(program)
    macs = [instruction.macs for instruction in VpuInterpreter(blob, "scalar").instructions]
    labels: list[str] = []
    blobs = {}
    for step, count in zip(program.steps, macs, strict=True):
        labels.append(_label(program, step) if count else "")
        if count and labels[-1] not in blobs:
            operands = [program.tensors[index] for index in step.inputs]
            alone = single(step.instruction, operands, program.tensors[step.output])
            blobs[labels[-1]] = serialize(alone)
    path.write_bytes(pickle.dumps(Net(blob, labels, blobs)))


NET = Artifact(".net", _make_net, EXECUTORCH, [*vpu_sources(), Path(__file__)])


def single(instruction: Instruction, operands: Sequence[Tensor], output: Tensor) -> VpuProgram:
    """A program of one instruction. Operands that are not constant are its inputs."""
    program = VpuProgram()
    for tensor in operands:
        data = tensor.buffer.data
        if data is None:
            buffer = Buffer(Storage.INPUT, tensor.nbytes, len(program.inputs))
            program.inputs.append(_argument(len(program.tensors), tensor.shape))
        else:
            buffer = Buffer(Storage.CONSTANT, tensor.nbytes, data=data)
        program.tensors.append(replace(tensor, buffer=buffer))
    program.outputs.append(_argument(len(program.tensors), output.shape))
    program.tensors.append(replace(output, buffer=Buffer(Storage.OUTPUT, output.nbytes)))
    program.steps.append(Step(instruction, tuple(range(len(operands))), len(operands)))
    return program


def _argument(tensor: int, shape: Shape) -> Argument:
    return Argument(tensor, shape, tuple(range(len(shape))))


def _label(program: VpuProgram, step: Step) -> str:
    """The same for layers that cost the same: "3x3 64→64 @56", "1x1/2 64→128 @28 + add"."""
    x, weight = (program.tensors[index].shape for index in step.inputs[:2])
    output = program.tensors[step.output].shape
    added = " + add" if len(step.inputs) > 4 else ""
    fields = vars(step.instruction)
    if "stride_h" not in fields:
        return f"{type(step.instruction).__name__.lower()} {x[-1]}→{output[-1]}{added}"
    kind = f"{weight[1]}x{weight[2]}"
    kind += f"/{fields['stride_h']}" if fields["stride_h"] > 1 else ""
    groups = fields["groups"]
    kind += " depthwise" if groups == x[-1] else f" {groups} groups" if groups > 1 else ""
    return f"{kind} {x[-1]}→{output[-1]} @{output[1]}{added}"


def convolution(channels: int, size: int, kernel: int) -> bytes:
    """A square convolution with padding, as many channels out as in, and random weights."""
    random = np.random.default_rng(0)
    weight = random.integers(-127, 128, (channels, kernel, kernel, channels), np.int8)
    deviation = 74.0**2 * kernel * channels**0.5  # of the sums; 40 steps of the output
    multiplier = np.full(channels, 40 / deviation, np.float32)
    constants = (weight, np.zeros(channels, np.int32), multiplier)
    image = _tensor(DType.INT8, (1, size, size, channels))
    conv = Conv2d(pad_top=kernel // 2, pad_left=kernel // 2)
    return serialize(single(conv, [image, *(_constant(data) for data in constants)], image))


def _tensor(dtype: DType, shape: Shape, data: NDArray | None = None) -> Tensor:
    return Tensor(Buffer(Storage.ARENA, 0, data=data), dtype, shape)


def _constant(data: NDArray) -> Tensor:
    return _tensor(next(d for d in DType if d.numpy == data.dtype), data.shape, data)


@dataclass(frozen=True)
class Time:
    """Of the instructions of a program."""

    macs: list[int]
    microseconds: list[float]  # the shortest of several runs: other programs can only add


def measure(blob: bytes, threads: int, seconds: float) -> Time:
    """Runs a program for about so long, at least three times, on random inputs."""
    interpreter = VpuInterpreter(blob, threads=threads)
    random = np.random.default_rng(0)
    inputs = [
        random.integers(-128, 128, argument.sizes).astype(argument.dtype)
        for argument in interpreter.inputs
    ]
    once = interpreter.time(*inputs, runs=2)[-1].sum() / 1e9
    runs = max(3, min(5000, round(seconds / once)))
    shortest = interpreter.time(*inputs, runs=runs).min(axis=0)
    return Time(
        [instruction.macs for instruction in interpreter.instructions],
        [float(time) / 1e3 for time in shortest],
    )
