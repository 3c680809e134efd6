"""What the pooling families share: windows along both spatial axes, padding cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch.fx import Node

from .arguments import arguments, rank_of, size_of, spread
from .layout import channels_last
from .program import Windows

NHWC = channels_last(4)


def pooling_problem(node: Node) -> str | None:
    """Why a pooling call's input is not a batch of images."""
    rank = rank_of(arguments(node).input)
    return None if rank == 4 else f"its input has rank {rank}: unbatched images are not supported"


def starts_of(node: Node, axis: int) -> tuple[range, int]:
    """Where the windows of a max_pool2d or avg_pool2d call start along spatial axis 0 or 1, in the
    input's coordinates (negative in the padding), and the kernel's size there."""
    call = arguments(node)
    kernel = spread(call.kernel_size, 2)
    stride = spread(call.stride, 2) or kernel  # an empty list means the kernel's size
    padding = spread(call.padding, 2)
    outputs = size_of(node, 2 + axis)  # ceil_mode is settled in it
    first = -padding[axis]
    return range(first, first + outputs * stride[axis], stride[axis]), kernel[axis]


def windows_of(node: Node, dilation: int | Sequence[int] = 1) -> tuple[Windows, Windows]:
    """(rows, columns) of a max_pool2d or avg_pool2d call."""
    sizes = [size_of(arguments(node).input, 2 + axis) for axis in (0, 1)]
    rows, columns = (
        _inside(*starts_of(node, axis), sizes[axis], spread(dilation, 2)[axis]) for axis in (0, 1)
    )
    return rows, columns


def _inside(starts: range, kernel: int, size: int, dilation: int) -> Windows:
    """The cells of every window that are in [0, size)."""
    # A start in the padding moves on to the window's first cell in the image.
    begin = [start if start >= 0 else start % dilation for start in starts]
    end = [min(start + (kernel - 1) * dilation + 1, size) for start in starts]
    return Windows(begin, end, dilation)


def per_window(
    x: NDArray, rows: Windows, columns: Windows, reduction: Literal["max", "sum"]
) -> NDArray:
    """Reduces every window of [N, H, W, C], one axis after the other: [N, OH, OW, C]."""
    for axis, windows in ((1, rows), (2, columns)):
        reduced = [
            getattr(x.take(windows.cells(i), axis), reduction)(axis) for i in range(len(windows))
        ]
        x = np.stack(reduced, axis)
    return x
