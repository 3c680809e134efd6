"""Programs that were decomposed before they came here: the table's ops are no longer in them."""

from __future__ import annotations

import torch
from torch.fx import Node

from .namespace import aten_target

_aten = torch.ops.aten
_MADE_OF = {
    _aten.convolution.default: "a convolution",
    _aten.addmm.default: "linear",
    _aten._log_softmax.default: "log_softmax",
    _aten.native_layer_norm.default: "layer_norm",
    _aten.native_group_norm.default: "group_norm",
    _aten.native_batch_norm.default: "batch_norm",
    _aten._native_batch_norm_legit.default: "batch_norm",
    _aten._native_batch_norm_legit.no_stats: "batch_norm",
    _aten._native_batch_norm_legit_no_training.default: "batch_norm",
    _aten._adaptive_avg_pool2d.default: "adaptive_avg_pool2d",
}


def is_decomposed(node: Node) -> bool:
    """Whether a node calls what decomposition makes of an op, where torch.export gives the op."""
    return aten_target(node) in _MADE_OF


def why_decomposed(node: Node) -> str:
    """Why such a node is on the CPU, and what helps."""
    target = aten_target(node)
    assert target is not None
    return (
        f"not in the op table: it is what run_decompositions() makes of {_MADE_OF[target]}. "
        "Pass the program as torch.export gives it"
    )
