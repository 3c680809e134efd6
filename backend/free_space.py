"""Where memory is free for a while: first fit."""

from __future__ import annotations

import numpy as np

_NEVER = np.iinfo(np.int64).max


class FreeSpace:
    """A memory whose bytes are taken during some steps of a program and free during the others.

    Every placement is compared with all those before it, but by a few NumPy operations: some
    nanoseconds a pair, so that thousands that live at once cost a fraction of lowering them.
    """

    def __init__(self, placements: int) -> None:
        """For at most so many placements."""
        # Columns in ascending order of offset: the bytes [start, end), the steps [first, last].
        self._placed = np.empty((4, placements), np.int64)
        self._count = 0

    def take(self, first: int, last: int, nbytes: int, alignment: int) -> int:
        """Takes `nbytes` during the steps [first, last].

        Returns:
            The lowest offset, a multiple of `alignment`, at which they are free.
        """
        starts, ends, firsts, lasts = self._placed[:, : self._count]
        alive = (firsts <= last) & (lasts >= first)
        # A gap reaches from the end of all that lies lower to the start of what comes next.
        gap_starts = np.append(0, np.maximum.accumulate(ends[alive]))
        gap_ends = np.append(starts[alive], _NEVER)
        offset = int(gap_starts[np.argmax(gap_ends - gap_starts >= nbytes)])
        place = int(np.searchsorted(starts, offset))
        end = -(-(offset + nbytes) // alignment) * alignment
        self._placed[:, place + 1 : self._count + 1] = self._placed[:, place : self._count]
        self._placed[:, place] = offset, end, first, last
        self._count += 1
        return offset
