"""What of every tensor is measured: what those who read it tell apart.

A mask's -inf, or whatever large number stands for it, says "never" to a softmax or a max pool; it
is no value of a range. So a tensor is measured where it is read, and as its readers read it: ahead
of a sigmoid up to where that is flat, ahead of a softmax down to where no exponential matters, not
at all where only a max pool's or a slice's result is read on. The operands of a sum are measured
down to where they matter in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.fx import Node
from torchao.quantization.pt2e import FakeQuantizeBase
from torchao.quantization.pt2e.quantizer import EdgeOrNode

from ..backend.arguments import arguments, rank_of, shape_of
from ..backend.chains import Chain
from ..backend.namespace import aten_target
from ..backend.naming import name_of
from ..backend.table import EVERYTHING, OutputRange, Reads
from .places import Calibration, Place, Sum


def measure_as_read(chains: Iterable[Chain], observers: dict[EdgeOrNode, nn.Module | None]) -> None:
    """Puts a `Place` before every observer of an activation.

    Args:
        chains: what was annotated.
        observers: torchao's, by edge and output; changed in place.
    """
    _Placement(chains, observers).run()


class _Placement:
    def __init__(
        self, chains: Iterable[Chain], observers: dict[EdgeOrNode, nn.Module | None]
    ) -> None:
        self._chains = list(chains)
        self._chain_of = {node: chain for chain in self._chains for node in chain.nodes}
        self._observers = observers
        # A tensor is in two groups if it is quantized twice, for readers that want it otherwise.
        self._places: dict[tuple[int, Node], Place] = {}
        self._readers: dict[tuple[int, Node], dict[Node, None]] = {}

    def run(self) -> None:
        weights = {
            (weight, chain.root)
            for chain in self._chains
            if (weight := chain.op.weight(chain.root)) is not None
        }
        keys = [
            (key, observer)
            for key, observer in self._observers.items()
            if observer is not None and key not in weights
        ]
        for key, observer in keys:
            value = key if isinstance(key, Node) else key[0]
            readers = self._readers.setdefault((id(observer), value), {})
            readers.update(dict.fromkeys(value.users if isinstance(key, Node) else [key[1]]))
        calibration = Calibration()
        for key, observer in keys:
            value = key if isinstance(key, Node) else key[0]
            place = self._places.get((id(observer), value))
            if place is None:
                place = self._place(observer, value)
                place.calibration = calibration
                calibration.places.append(place)
            self._observers[key] = place
        for chain in self._chains:
            self._join(chain)

    def _place(self, observer: nn.Module, value: Node) -> Place:
        readers = self._readers[id(observer), value]
        direct = [reader for reader in readers if not self._hands_on(reader)]
        reads = _union(self._reads(reader) for reader in direct)
        observes = bool(direct) or not readers
        place = Place(observer, name_of(value), reads, observes)
        self._places[id(observer), value] = place
        return place

    def _hands_on(self, reader: Node) -> bool:
        """Whether a reader only moves or selects values, whose own result is measured instead."""
        chain = self._chain_of.get(reader)
        return chain is not None and chain.op.output_range is OutputRange.SHARED

    def _reads(self, reader: Node) -> Reads:
        chain = self._chain_of.get(reader)
        if chain is None or reader is not chain.root or len(chain.op.activations(reader)) != 1:
            return EVERYTHING
        return _normalized(chain.op.reads(reader), reader)

    def _join(self, chain: Chain) -> None:
        """Lets a sum that is read in part measure its operands."""
        reads = self._reads_of_sum(chain)
        if reads is EVERYTHING:
            return
        signs = chain.op.signs(chain.root)
        operands = [self._place_at((a, chain.root)) for a in chain.op.activations(chain.root)]
        whole = self._place_at(chain.last)
        if whole is None or signs is None or None in operands:
            return
        a, b = (place for place in operands if place is not None)
        whole.sum = Sum((a, b), signs, reads)
        for place, operand in zip((a, b), chain.op.activations(chain.root), strict=True):
            place.keeps = True
            readers = self._readers[id(place.measure), operand]
            direct = [reader for reader in readers if not self._hands_on(reader)]
            place.awaits_sum = all(self._reads_of_sum_at(reader) for reader in direct)
            if place.awaits_sum and isinstance(place.measure, FakeQuantizeBase):
                # In training the sum is not known yet. Twice the depth is there for what the other
                # operand adds.
                place.reads = Reads(low=reads.low, dim=-1, depth=2 * reads.depth)

    def _reads_of_sum_at(self, reader: Node) -> bool:
        chain = self._chain_of.get(reader)
        return chain is not None and self._reads_of_sum(chain) is not EVERYTHING

    def _reads_of_sum(self, chain: Chain) -> Reads:
        """What is read of a chain's output if it is a plain sum of two tensors; else all."""
        if len(chain.nodes) > 1 or chain.op.signs(chain.root) is None:
            return EVERYTHING
        return self._reads_through(chain.root, 0)

    def _reads_through(self, value: Node, depth: int) -> Reads:
        """What is read of a tensor, also behind ops that leave its rows as they are."""
        if depth > _LONGEST_PATH:
            return EVERYTHING
        found = []
        for reader in value.users:
            chain = self._chain_of.get(reader)
            if self._hands_on(reader):
                beyond = self._reads_through(reader, depth + 1)
                found.append(_before(beyond, reader, value))
            elif chain is not None and reader is chain.root and chain.op.signs(reader) is not None:
                found.append(self._reads_of_sum(chain))
            else:
                found.append(self._reads(reader))
        return _union(found)

    def _place_at(self, key: EdgeOrNode) -> Place | None:
        found = self._observers.get(key)
        if found is None and isinstance(key, tuple):
            found = self._observers.get(key[0])
        return found if isinstance(found, Place) else None


_LONGEST_PATH = 16  # of ops that only move data; longer ones are taken to be read whole


def _union(reads: Iterable[Reads]) -> Reads:
    found = list(dict.fromkeys(reads))
    if not found or EVERYTHING in found or len({r.dim for r in found}) > 1:
        return EVERYTHING
    return Reads(
        min(r.low for r in found),
        max(r.high for r in found),
        found[0].dim,
        max(r.depth for r in found),
    )


def _normalized(reads: Reads, reader: Node) -> Reads:
    if reads.dim is None:
        return reads
    rank = rank_of(arguments(reader).input)
    return Reads(reads.low, reads.high, reads.dim % rank, reads.depth)


def _before(reads: Reads, mover: Node, value: Node) -> Reads:
    """What a call that moves data reads of its operand, if `reads` is read of its result."""
    if reads.dim is None:
        return reads if not math.isinf(reads.low) or not math.isinf(reads.high) else EVERYTHING
    # Run the call on a tensor that says where along its last dimension every element lies.
    shape, target = shape_of(value), aten_target(mover)
    assert target is not None
    along = torch.arange(shape[-1]).expand(shape)
    moved = target(along, *list(vars(arguments(mover)).values())[1:])
    across = torch.arange(shape[-1]).reshape(-1, *[1] * (moved.ndim - 1 - reads.dim))
    rows_stay = (
        moved.shape[reads.dim] == shape[-1]
        and moved.numel() == along.numel()
        and bool((moved == across).all())
    )
    return Reads(reads.low, reads.high, len(shape) - 1, reads.depth) if rows_stay else EVERYTHING
