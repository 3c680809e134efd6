"""The memory order of a program's inputs.

`torch.export` takes an example's strides into the program. ExecuTorch's runtime keeps to contiguous
and channels_last: of an input declared otherwise it reads contiguous memory in the wrong order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Interpreter, Node

from ..backend.memory_order import has_plain_order, in_plain_order


def strided_inputs(graph: Graph, program: ExportedProgram) -> list[Node]:
    """The inputs, parameters aside, stored neither contiguous nor channels_last.

    Args:
        graph: of `program`, or a copy of it.
    """
    inputs = set(program.graph_signature.user_inputs)
    return [
        node
        for node in graph.nodes
        if node.op == "placeholder"
        and node.name in inputs
        and isinstance(value := node.meta.get("val"), torch.Tensor)
        and not has_plain_order(value)
    ]


def order_warnings(inputs: Iterable[Node]) -> list[str]:
    """What to tell of `strided_inputs`; nothing where only dimensions of size 1 differ."""
    return [
        f"The example for the input {node.name} has the shape {list(node.meta['val'].shape)} and "
        f"the strides {list(node.meta['val'].stride())}. The runtime is given contiguous memory, "
        "and so the program is lowered for it: export with, and pass, "
        f"{node.name}.contiguous()."
        for node in inputs
        if not node.meta["val"].is_contiguous()
    ]


def take_contiguous(module: GraphModule, inputs: Iterable[Node]) -> None:
    """Makes a program read `inputs` contiguous. Edits the nodes' metadata; the ops behind them are
    traced anew when ExecuTorch decomposes the program.

    Raises:
        ValueError: an op cannot do that, such as a view that the example's strides allowed.
    """
    inputs = list(inputs)
    if not inputs:
        return
    for node in inputs:
        node.meta["val"] = in_plain_order(node.meta["val"])
    names = ", ".join(node.name for node in inputs)
    values = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    mode = inputs[0].meta["val"].fake_mode
    with mode, torch.no_grad():
        _Tracer(module, names).run(*values)


class _Tracer(Interpreter):
    """Runs a graph on fake tensors to see whether it can be."""

    def __init__(self, module: GraphModule, names: str) -> None:
        super().__init__(module)
        self._names = names

    def run_node(self, n: Node) -> Any:
        try:
            return super().run_node(n)
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"{n.name} ({n.target}) does not work on contiguous inputs, and the runtime gives "
                f"no others; the examples for {self._names} had other strides. Export with "
                f"contiguous examples, and write reshape where the model has view. ({error})"
            ) from error
