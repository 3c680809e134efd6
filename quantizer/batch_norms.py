"""Keeping torchao from folding batch norms that do not fold.

`prepare_pt2e` folds every batch norm into the convolution or linear layer before it, and only then
calls the quantizer. It does not look whether anybody else sees what the convolution computes, and
changes the model without a word in these cases:

* the convolution's output is also used elsewhere (an add, a second batch norm, the model's output);
* two batch norms in a row: the second is dropped;
* the convolution's weight is used twice, and not both times behind the same batch norm.

Others it refuses with an error: transposed convolutions with groups, batch norms without running
statistics, computed weights, and batch norms without parameters of their own behind a linear layer.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..backend.arguments import arguments
from ..backend.folding import fold_constants
from ..backend.namespace import aten_target
from ..backend.regions import dissolve_regions

aten = torch.ops.aten
_MARK = "vpu_keeps_batch_norm"


def protect_batch_norms(model: GraphModule) -> GraphModule:
    """Makes `prepare_pt2e` leave alone the batch norms that it would fold wrongly.

        model = protect_batch_norms(torch.export.export(net, inputs).module())
        prepared = prepare_pt2e(model, VpuQuantizer())

    Puts a no-op before each of them, which VpuQuantizer takes out again; they run as ops of their
    own. Regions such as `torch.no_grad()` are dissolved, and weights that are computed from
    constants are computed, so that their batch norms fold. Other models are unchanged. Changes
    `model` in place and returns it.
    """
    dissolve_regions(model)
    norms = [node for node in model.graph.nodes if _is_batch_norm(node)]
    fold_constants(model, trained=any(arguments(norm).training for norm in norms))
    folded: set[Node] = set()
    shared: dict[tuple[Any, ...], bool] = {}
    for node in list(model.graph.nodes):
        if not _is_batch_norm(node):
            continue
        producer = node.all_input_nodes[0]
        if _absorbs(producer) and _folds(node, producer, shared):
            _spell_out_parameters(node, model)
            folded.add(node)
        elif _absorbs(producer) or producer in folded:
            with model.graph.inserting_before(node):
                barrier = model.graph.call_function(aten.alias.default, (producer,))
            barrier.meta = {**producer.meta, _MARK: True}
            node.replace_input_with(producer, barrier)
    model.recompile()
    return model


def _spell_out_parameters(norm: Node, model: GraphModule) -> None:
    """Gives a batch norm without `affine` the weight 1 and the bias 0 that torchao looks for."""
    statistics = arguments(norm).running_mean
    for position, (name, value) in enumerate((("weight", 1.0), ("bias", 0.0)), start=1):
        if norm.args[position] is not None:
            continue
        target = f"_{norm.name}_{name}"
        like = model.get_buffer(str(statistics.target))
        model.register_buffer(target, torch.full_like(like, value))
        with model.graph.inserting_before(norm):
            constant = model.graph.get_attr(target)
        constant.meta = dict(statistics.meta)
        norm.update_arg(position, constant)


def is_barrier(node: Node) -> bool:
    """Whether `protect_batch_norms` inserted this node."""
    return _MARK in node.meta and aten_target(node) is aten.alias.default


def _is_batch_norm(node: Node) -> bool:
    return aten_target(node) is aten.batch_norm.default


def _absorbs(node: Node) -> bool:
    """Whether torchao folds batch norms into this op."""
    target = aten_target(node)
    return target is not None and target._schema.name.startswith(("aten::conv", "aten::linear"))


def _folds(norm: Node, producer: Node, shared: dict[tuple[Any, ...], bool]) -> bool:
    """Whether folding `norm` into the weights of `producer` changes nothing else. `shared` keeps
    what was found of weights and norms that are used many times."""
    call, statistics = arguments(producer), arguments(norm)
    constants = [node for node in (call.weight, call.bias) if node is not None]
    block = (*constants, norm.args[1:])
    if block not in shared:
        users = [user for constant in constants for user in constant.users]
        shared[block] = all(_is_same_block(user, call, norm) for user in users)
    transposed = "transpose" in str(producer.target)
    return (
        not statistics.training
        and statistics.running_mean is not None
        and not (transposed and call.groups > 1)
        and all(constant.op == "get_attr" for constant in constants)
        and shared[block]
    )


def _is_same_block(user: Node, call: SimpleNamespace, norm: Node) -> bool:
    """Whether a user of a weight is the same layer, with nothing behind it but the same norm."""
    if not _absorbs(user) or len(user.users) != 1:
        return False
    behind, other = next(iter(user.users)), arguments(user)
    return (
        (other.weight, other.bias) == (call.weight, call.bias)
        and _is_batch_norm(behind)
        and behind.args[1:] == norm.args[1:]
    )
