"""The arena plan: where every intermediate tensor lives, decided ahead of time."""

from __future__ import annotations

from dataclasses import dataclass

from .free_space import FreeSpace
from .program import Buffer, Step, Storage, VpuProgram

ALIGNMENT = 64  # bytes: a cache line, and a zmm register


@dataclass
class _Interval:
    """Buffers of one size that share memory, one after another, and the steps [first, last] during
    which its contents matter."""

    buffers: list[Buffer]
    first: int
    last: int

    @property
    def nbytes(self) -> int:
        return self.buffers[0].nbytes


def plan_arena(program: VpuProgram) -> None:
    """Gives every arena buffer an offset and sets program.arena_size.

    Greedy by size: the largest buffer first, each at the lowest offset that is free while it lives.
    An output takes over the memory of an operand that its instruction may overwrite.
    """
    intervals = _lifetimes(program)
    free = FreeSpace(len(intervals))
    program.arena_size = 0
    for interval in sorted(intervals, key=lambda i: (-i.nbytes, i.first)):
        offset = free.take(interval.first, interval.last, interval.nbytes, ALIGNMENT)
        program.arena_size = max(program.arena_size, _aligned(offset + interval.nbytes))
        for buffer in interval.buffers:
            buffer.offset = offset


def _lifetimes(program: VpuProgram) -> list[_Interval]:
    intervals: dict[int, _Interval] = {}
    for position, step in enumerate(program.steps):
        for index in (step.output, *program.operands(step)):
            buffer = program.tensors[index].buffer
            if buffer.storage is Storage.ARENA:
                interval = intervals.setdefault(id(buffer), _Interval([buffer], position, position))
                interval.last = position
    for position, step in enumerate(program.steps):
        _take_over(program, position, step, intervals)
    return list({id(interval): interval for interval in intervals.values()}.values())


def _take_over(
    program: VpuProgram, position: int, step: Step, intervals: dict[int, _Interval]
) -> None:
    """Joins the output's interval to that of the operand whose memory it can have, if any."""
    operand = step.instruction.overwrites
    if operand is None or operand >= len(step.inputs):
        return
    buffers = [program.tensors[index].buffer for index in step.inputs]
    old, new = (
        intervals.get(id(b)) for b in (buffers[operand], program.tensors[step.output].buffer)
    )
    read_once = sum(buffer is buffers[operand] for buffer in buffers) == 1
    if (
        old is not None
        and new is not None
        and old.last == position == new.first
        and old.nbytes == new.nbytes
        and read_once
    ):
        old.buffers += new.buffers
        old.last = new.last
        for buffer in new.buffers:
            intervals[id(buffer)] = old


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
