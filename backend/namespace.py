"""The `vpu::` operator namespace: planned nodes keep their ATen form on the way to the edge graph.

`to_edge_transform_and_lower` decomposes ATen ops. A node the plan gave to the VPU is renamed to
the operator of the same schema under `vpu::`, which nothing decomposes and no other partitioner
takes, so the partitioner and preprocess see the very overloads the plan was made of.

A mirror is functional: an in-place or a view-returning ATen form returns a fresh tensor here,
stored as ATen's own functional forms store theirs: `permute_copy` and its kind contiguous, whatever
the view's strides were.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from .memory_order import in_plain_order

_LIBRARY = torch.library.Library("vpu", "DEF")
# Of quantize and dequantize: apart, so that "vpu." in a profile means an op of the model.
_QUANTIZED_LIBRARY = torch.library.Library("vpu_quantized", "DEF")
_ATEN_OF: dict[OpOverload, OpOverload] = {}


def mirror_of(node: Node) -> OpOverload:
    """The operator under `vpu::` that a node's call is renamed to."""
    target = aten_target(node)
    assert target is not None, f"{node.format_node()} calls no operator"
    # ATen takes a number where add.Tensor and its kind declare a tensor, and the plan puts a shape
    # for a tensor of which only that is read; a mirror must declare them.
    given = zip(target._schema.arguments, node.args, strict=False)
    others = [(a.name, _type_of(value)) for a, value in given if _is_tensor(a)]
    return _mirror(target, tuple((name, type_) for name, type_ in others if type_ is not None))


def _is_tensor(argument: torch.Argument) -> bool:
    return isinstance(argument.type, torch.TensorType)


def _type_of(value: object) -> str | None:
    """How a schema calls what stands for a tensor; None for a tensor."""
    if isinstance(value, (int, float)):
        return "Scalar"
    return "int[]" if isinstance(value, (list, tuple)) else None


@functools.cache
def _mirror(op: OpOverload, others: tuple[tuple[str, str], ...]) -> OpOverload:
    namespace, name = op._schema.name.split("::")
    library = _QUANTIZED_LIBRARY if namespace == "quantized_decomposed" else _LIBRARY
    if namespace != "aten" and library is _LIBRARY:
        name = f"{namespace}_{name}"  # others may use the same name
    # Other partitioners match by the name without its namespace; none knows these overloads.
    overload = "_".join(("planned", op._overloadname.replace("default", "")))
    overload = "_".join((overload.rstrip("_"), *(argument for argument, _ in others)))
    qualified = f"{name}.{overload}"
    # "(a!)", "(a)" and "(a -> *)" mark aliasing: a mirror has none.
    signature = re.sub(r"\([a-z]!?(?: -> [^)]*)?\)", "", str(op._schema))
    for argument, type_ in others:
        signature = re.sub(rf"Tensor {argument}\b", f"{type_} {argument}", signature)
    library.define(qualified + signature[signature.index("(") :])
    library.impl(qualified, _functional(op, dict(others)), "CompositeExplicitAutograd")
    mirror: OpOverload = getattr(getattr(getattr(torch.ops, library.ns), name), overload)
    _ATEN_OF[mirror] = op
    return mirror


def _functional(op: OpOverload, others: dict[str, str]) -> Callable[..., torch.Tensor]:
    declared = op._schema.arguments
    written = [a.alias_info is not None and a.alias_info.is_write for a in declared]
    aliases = any(a.alias_info is not None for a in declared)
    # `contiguous`, `to` and their kind return what they were given, or the order they were asked
    # for. All other aliasing forms are views: their strides say nothing of the result's order.
    is_view = aliases and not any(written) and all(a.name != "memory_format" for a in declared)

    def placed(argument: torch.Argument, value: Any, on: torch.device) -> Any:
        """A value as the op takes it where the operands are: when shapes are inferred that is not
        the device that `to` and its kind name."""
        if others.get(argument.name) == "int[]":
            return torch.empty(value, device=on)
        return on if argument.name == "device" and value is not None else value

    def run(*args: Any, **kwargs: Any) -> torch.Tensor:
        if isinstance(args[0], torch.Tensor):
            on = args[0].device
            args = tuple(placed(a, value, on) for a, value in zip(declared, args, strict=False))
            kwargs = {a.name: placed(a, kwargs[a.name], on) for a in declared if a.name in kwargs}
        args = tuple(a.clone() if w else a for a, w in zip(args, written, strict=False))
        result: torch.Tensor = op(*args, **kwargs)
        if is_view:
            return result.clone(memory_format=torch.contiguous_format)
        fresh = result.clone() if aliases or result is args[0] else result
        return in_plain_order(fresh)

    return run


def overload_of(node: Node) -> OpOverload | None:
    """The OpOverload a node calls, taken out of ExecuTorch's edge wrapper; None for the rest."""
    target: Any = node.target
    if node.op != "call_function":
        return None
    if isinstance(target, OpOverload):
        return target
    # EdgeOpOverload wraps an OpOverload as `_op`; OpOverload has an `_op` too, hence the order.
    wrapped = getattr(target, "_op", None)
    return wrapped if isinstance(wrapped, OpOverload) else None


def aten_target(node: Node) -> OpOverload | None:
    """The ATen overload a node stands for: mirrors and edge wrappers are seen through."""
    op = overload_of(node)
    return None if op is None else _ATEN_OF.get(op, op)


def is_mirror(node: Node) -> bool:
    """Whether a node calls an operator that a plan renamed."""
    return overload_of(node) in _ATEN_OF
