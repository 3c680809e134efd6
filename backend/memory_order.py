"""The memory orders a tensor may cross the boundary of a delegate in: contiguous and channels_last.

ExecuTorch knows strides only as a dim order, and its kernels and its runtime take these two. Any
other (a transposed example input, a permuted intermediate value) is declared and then not kept to.
"""

from __future__ import annotations

import torch

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def has_plain_order(tensor: torch.Tensor) -> bool:
    """Whether a tensor (a fake one will do) is stored contiguous or channels_last, without gaps.

    Of dynamic sizes, strides are compared as far as they are numbers.
    """
    return _has_strides_of(tensor, torch.contiguous_format) or (
        tensor.ndim in _CHANNELS_LAST and _has_strides_of(tensor, _CHANNELS_LAST[tensor.ndim])
    )


def in_plain_order(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, or a contiguous copy where it is stored in no plain order."""
    if has_plain_order(tensor):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _has_strides_of(tensor: torch.Tensor, memory_format: torch.memory_format) -> bool:
    order = list(range(tensor.ndim))
    if memory_format is not torch.contiguous_format:
        order = [0, *order[2:], 1]
    expected: int | torch.SymInt = 1
    for dim in reversed(order):
        stride = tensor.stride(dim)
        if isinstance(stride, int) and isinstance(expected, int) and stride != expected:
            return False
        size = tensor.shape[dim]
        expected = expected * (1 if isinstance(size, int) and size == 0 else size)
    return True
