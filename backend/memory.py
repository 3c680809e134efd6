"""The arena plan: where every intermediate tensor lives, decided ahead of time."""

from __future__ import annotations

from dataclasses import dataclass

from .program import Buffer, Storage, VpuProgram

ALIGNMENT = 64  # bytes: a cache line, and a zmm register


@dataclass
class _Interval:
    """A buffer and the steps [first, last] during which its contents matter."""

    buffer: Buffer
    first: int
    last: int

    def overlaps(self, other: _Interval) -> bool:
        return self.first <= other.last and other.first <= self.last


def plan_arena(program: VpuProgram) -> None:
    """Gives every arena buffer an offset and sets program.arena_size.

    Greedy by size: the largest buffer first, each at the lowest offset that is free while it lives.
    """
    placed: list[_Interval] = []
    for interval in sorted(_lifetimes(program), key=lambda i: (-i.buffer.nbytes, i.first)):
        neighbours = sorted(
            (p for p in placed if p.overlaps(interval)), key=lambda p: p.buffer.offset
        )
        offset = 0
        for neighbour in neighbours:
            if offset + interval.buffer.nbytes <= neighbour.buffer.offset:
                break
            offset = max(offset, _aligned(neighbour.buffer.offset + neighbour.buffer.nbytes))
        interval.buffer.offset = offset
        placed.append(interval)
    program.arena_size = max(
        (_aligned(p.buffer.offset + p.buffer.nbytes) for p in placed), default=0
    )


def _lifetimes(program: VpuProgram) -> list[_Interval]:
    intervals: dict[int, _Interval] = {}
    for position, step in enumerate(program.steps):
        for index in (step.output, *program.operands(step)):
            buffer = program.tensors[index].buffer
            if buffer.storage is Storage.ARENA:
                interval = intervals.setdefault(id(buffer), _Interval(buffer, position, position))
                interval.last = position
    return list(intervals.values())


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
