"""The VPU program: what a delegated subgraph is lowered to, before it becomes bytes.

`schema/vpu.fbs` says what every instruction computes; an instruction's Python class, in the file of
its op in `backend/ops/`, has the same fields and a NumPy reference of the same arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .layout import Layout

INT8_MIN, INT8_MAX = -128, 127


class DType(IntEnum):
    """Element types, numbered as in the schema."""

    INT8 = 0
    INT32 = 1
    FLOAT32 = 2

    @property
    def numpy(self) -> np.dtype:
        return np.dtype((np.int8, np.int32, np.float32)[self])


class Storage(IntEnum):
    """Where a tensor lives, numbered as in the schema."""

    ARENA = 0
    CONSTANT = 1
    INPUT = 2
    OUTPUT = 3


@dataclass
class Buffer:
    """Memory one or more tensors share. `offset`: bytes, or the position among inputs/outputs."""

    storage: Storage
    nbytes: int
    offset: int = 0
    data: NDArray | None = None  # constants only


@dataclass
class Tensor:
    """A value in memory. `shape` is physical (row-major); scale and zero_point are int8's."""

    buffer: Buffer
    dtype: DType
    shape: tuple[int, ...]
    scale: float = 1.0
    zero_point: int = 0
    name: str = ""

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.numpy.itemsize


@dataclass
class Argument:
    """One input or output of the delegate: logical sizes, and which of them is stored outermost."""

    tensor: int
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """A tensor's data as a reference sees it: `data` has the physical shape."""

    data: NDArray
    zero_point: int = 0

    @property
    def centered(self) -> NDArray[np.int64]:
        """data - zero_point, int64."""
        return self.data.astype(np.int64) - self.zero_point


class Windows:
    """See `Windows` in the schema."""

    def __init__(self, begin: Sequence[int], end: Sequence[int], step: int = 1) -> None:
        self.begin, self.end, self.step = tuple(begin), tuple(end), step

    def cells(self, i: int) -> range:
        """The input positions of output position `i`."""
        return range(self.begin[i], self.end[i], self.step)

    def __len__(self) -> int:
        return len(self.begin)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Windows) and vars(self) == vars(other)


@dataclass
class Instruction(ABC):
    """Base of every instruction. A subclass is named as its schema table and has its fields."""

    # The operand whose memory the output may take over: the kernel reads an element of it before it
    # writes that of the output.
    overwrites: ClassVar[int | None] = None

    # Every instruction class by name, filled as the files of backend/ops are imported.
    classes: ClassVar[dict[str, type[Instruction]]] = {}

    def __init_subclass__(cls) -> None:
        Instruction.classes[cls.__name__] = cls

    @abstractmethod
    def reference(self, inputs: Sequence[Operand], output: Tensor) -> NDArray:
        """The instruction in NumPy, bit for bit.

        Args:
            inputs: in the schema's order.
            output: shape, dtype and zero point of the result.
        Returns:
            An array of output.shape and output.dtype.
        """


@dataclass
class Step:
    """An instruction with its operands, as indices of `VpuProgram.tensors`."""

    instruction: Instruction
    inputs: tuple[int, ...]
    output: int
    debug_id: int = -1
    name: str = ""


@dataclass
class VpuProgram:
    """A lowered subgraph.

    Attributes:
        inputs, outputs: the delegate's arguments, in order.
        arena_size: bytes; 0 until the arena is planned (`memory.plan_arena`).
        values: name of a graph node with an int8 value -> the tensor that holds it and its layout.
    """

    tensors: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    inputs: list[Argument] = field(default_factory=list)
    outputs: list[Argument] = field(default_factory=list)
    arena_size: int = 0
    values: dict[str, tuple[int, Layout]] = field(default_factory=dict)

    def operands(self, step: Step) -> tuple[int, ...]:
        """Every tensor the step reads: its inputs, and those its instruction's fields name."""
        named = (i for i in getattr(step.instruction, "tables", ()) if i >= 0)
        return (*step.inputs, *named)
