"""Layouts: in which order a tensor's logical dimensions are stored.

A layout is a permutation: physical dimension i (0 = outermost) holds logical dimension layout[i].
The layout of a value is settled at lowering; instructions see physical shapes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Layout = tuple[int, ...]
Shape = tuple[int, ...]


def contiguous(rank: int) -> Layout:
    return tuple(range(rank))


def channels_last(rank: int) -> Layout:
    """Dimension 1 innermost: NHWC for NCHW, NLC for NCL; contiguous below rank 3."""
    return contiguous(rank) if rank < 3 else (0, *range(2, rank), 1)


def physical(shape: Sequence[int], layout: Layout) -> Shape:
    return tuple(shape[d] for d in layout)


def same_storage(shape: Sequence[int], a: Layout, b: Layout) -> bool:
    """Whether both layouts store the elements in one order: dimensions of size 1 do not count."""
    return [d for d in a if shape[d] != 1] == [d for d in b if shape[d] != 1]


def transposition(source: Layout, target: Layout) -> tuple[int, ...]:
    """The perm of a Transpose: output dimension i is input dimension perm[i]."""
    return tuple(source.index(d) for d in target)


def reshaped(before: Sequence[int], after: Sequence[int], layout: Layout) -> Layout | None:
    """The layout of a reshape's result if its memory stays as it is; None if it cannot.

    Args:
        before, after: logical shapes of the same number of elements.
        layout: how the input is stored.
    """
    group_of = {source[0]: (source, target) for source, target in _regrouped(before, after)}
    stored = [d for d in layout if before[d] != 1]
    result: list[int] = []
    while stored:
        source, target = group_of.get(stored[0], ([], []))
        if not source or stored[: len(source)] != source:
            return None
        stored = stored[len(source) :]
        result += target
    # Dimensions of size 1 take no place: each goes where a contiguous layout would have it.
    for d in reversed(range(len(after))):
        if d not in result:
            result.insert(result.index(d + 1) if d + 1 < len(after) else len(result), d)
    return tuple(result)


def _regrouped(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The dimensions of two shapes in the shortest runs, pair by pair of the same number of
    elements; dimensions of size 1 left out."""
    groups: list[tuple[list[int], list[int]]] = []
    sources = [d for d, size in enumerate(before) if size != 1]
    targets = [d for d, size in enumerate(after) if size != 1]
    while sources:
        source, target = [sources.pop(0)], [targets.pop(0)]
        while (a := prod(before[d] for d in source)) != (b := prod(after[d] for d in target)):
            if a < b:
                source.append(sources.pop(0))
            else:
                target.append(targets.pop(0))
        groups.append((source, target))
    return groups
