"""Reading a node's arguments by name, whatever form the call took."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from types import SimpleNamespace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from .dynamic import depends_on_data
from .namespace import aten_target

# What the interpreter takes: kMaxRank in kernels/include/vpu/kernel.h, and an int32 count.
MAX_RANK, MAX_ELEMENTS = 8, 2**31 - 1


def arguments(node: Node) -> SimpleNamespace:
    """All arguments of an ATen call by schema name, defaults filled in (exported graphs omit
    trailing defaults). `self` is named `input`."""
    target = aten_target(node)
    assert target is not None, f"{node.format_node()} does not call an operator"
    given, named = node.args, node.kwargs
    return SimpleNamespace(
        **{
            attribute: given[i] if i < len(given) else named.get(name, default)
            for i, (attribute, name, default) in enumerate(_parameters(target))
        }
    )


@functools.cache
def _parameters(target: OpOverload) -> tuple[tuple[str, str, Any], ...]:
    """(attribute, name, default) of every argument: reading a schema is what costs in a call."""
    return tuple(
        ("input" if a.name == "self" else a.name, a.name, a.default_value)
        for a in target._schema.arguments
    )


def spread(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """An int-or-list argument as `rank` numbers: ATen repeats a single one."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * rank if len(numbers) == 1 else numbers


def shape_of(node: Node) -> tuple[int, ...]:
    """The static logical shape of a node's value.

    Raises:
        ValueError: the value is no tensor, or a dimension is symbolic.
    """
    value = _tensor(node)
    if any(not isinstance(size, int) for size in value.shape):
        raise ValueError(f"{node.name} has a dynamic shape {list(value.shape)}")
    return tuple(value.shape)


def size_of(node: Node, dim: int) -> int:
    """The static size of a tensor along a dimension; others may be dynamic.

    Raises:
        ValueError: the value is no tensor, or the size is symbolic.
    """
    size = _tensor(node).shape[dim]
    if not isinstance(size, int):
        raise ValueError(
            f"it depends on the size of {node.name} along dimension {dim}, which is dynamic: {size}"
        )
    return size


def rank_of(node: Node) -> int:
    """The number of a tensor's dimensions, static or not.

    Raises:
        ValueError: the value is no tensor.
    """
    return _tensor(node).ndim


def _tensor(node: Node) -> torch.Tensor:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"{node.name} is not a single tensor")
    return value


def dtype_of(node: Node) -> torch.dtype | None:
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def tensor_problem(node: Node, dynamic: bool = False) -> str | None:
    """Why a real-valued tensor cannot be one the VPU works on; None if it can.

    The VPU computes on float32 (quantized to int8) and plans its memory ahead, so that every size
    is known.

    Args:
        dynamic: sizes that follow from those of the model's inputs may yet become static.
    """
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return "is not a single tensor"
    if value.dtype != torch.float32:
        return f"is {value.dtype}, not torch.float32"
    known = [size for size in value.shape if isinstance(size, int)]
    if len(known) < value.ndim and (not dynamic or depends_on_data(value.shape)):
        return f"has the dynamic shape {list(value.shape)}; memory is planned ahead"
    if 0 in known:
        return f"is empty: shape {list(value.shape)}"
    if value.ndim > MAX_RANK:
        return f"has {value.ndim} dimensions; the limit is {MAX_RANK}"
    if prod(known) > MAX_ELEMENTS:
        return f"has {prod(known)} elements; the limit is {MAX_ELEMENTS}"
    return None
