"""What of every tensor is measured: what those who read it tell apart.

A mask's -inf, or whatever large number stands for it, says "never" to a softmax or a max pool; it
is no value of a range. So a tensor is measured where it is read, and as its readers read it: ahead
of a sigmoid up to where that is flat, ahead of a softmax down to where no exponential matters, not
at all where only a max pool's or a slice's result is read on. The operands of a sum are measured
down to where they matter in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import nn
from torch.fx import Node
from torchao.quantization.pt2e import FakeQuantizeBase
from torchao.quantization.pt2e.quantizer import EdgeOrNode

from ..backend.arguments import arguments, rank_of
from ..backend.chains import Chain
from ..backend.constants import is_constant
from ..backend.dynamic import at_export, shape_at_export
from ..backend.namespace import aten_target
from ..backend.naming import name_of
from ..backend.table import EVERYTHING, OutputRange, Reads
from .places import Calibration, Place, Sum


class Readers:
    """Who reads what of the tensors of a float graph, of which `chains` will be quantized.

    Args:
        chains: in topological order.
    """

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._chain_of = {node: chain for chain in chains for node in chain.nodes}
        # What is read of a chain's output, also behind ops that leave its rows as they are.
        self._read_of: dict[Node, Reads] = {}
        # Those that only sums read. Where a row is cut depends on the other operand then.
        self._in_sums: set[Node] = set()
        for chain in reversed(chains):  # readers first
            value = chain.last
            in_sums = {self.reads_of_sum(reader) != EVERYTHING for reader in value.users}
            if in_sums == {True}:
                self._in_sums.add(value)
                self._read_of[value] = _union(map(self.reads_of_sum, value.users))
            elif True in in_sums:
                self._read_of[value] = EVERYTHING
            else:
                found = (self._read_by(reader, value) for reader in value.users)
                self._read_of[value] = _union(found)

    def hands_on(self, reader: Node) -> bool:
        """Whether a reader only moves or selects values, whose own result is measured instead."""
        chain = self._chain_of.get(reader)
        return chain is not None and chain.op.output_range is OutputRange.SHARED

    def reads(self, reader: Node) -> Reads:
        """What a reader of one activation operand tells apart. One that only scales it tells apart
        what is told apart of its own result."""
        chain = self._chain_of.get(reader)
        if chain is None or reader is not chain.root or len(chain.op.activations(reader)) != 1:
            return EVERYTHING
        factor = chain.op.factor(reader)
        if factor is not None:
            beyond = EVERYTHING if chain.last in self._in_sums else self._read_of[chain.last]
            return replace(EVERYTHING, dim=beyond.dim, depth=beyond.depth / factor)
        return _normalized(chain.op.reads(reader), reader)

    def reads_of_sum(self, reader: Node) -> Reads:
        """What is read of a reader's result if it is a sum of two tensors, perhaps clamped: a clamp
        lowers no floor. EVERYTHING if it is none."""
        chain = self._chain_of.get(reader)
        summed = chain is not None and reader is chain.root and chain.op.signs(reader) is not None
        if chain is None or not summed:
            return EVERYTHING
        return self._read_of[chain.last]

    def may_saturate(self, chain: Chain, sentinel: float) -> bool:
        """Whether a number that stands for "never", brought in by a call, may be any other of its
        sign that is large enough, because nobody reads it as it is."""
        signs = chain.op.signs(chain.root)
        if signs is not None:
            # A sum's operands are measured down to a floor, and up to whatever they reach.
            _, second = chain.op.activations(chain.root)
            lowers = sentinel * (signs[1] if is_constant(second) else signs[0]) < 0
            return lowers and _is_cut(self.reads_of_sum(chain.root), -abs(sentinel))
        holders = [chain.last]
        for holder in holders:
            for reader in holder.users:
                by = self._chain_of.get(reader)
                largest = by is not None and by.op.takes_largest and sentinel < 0
                read = (self.reads(reader), self.reads_of_sum(reader))
                if largest or any(_is_cut(part, sentinel) for part in read):
                    continue
                if not self.hands_on(reader):
                    return False
                holders.append(reader)
        return True

    def _read_by(self, reader: Node, value: Node) -> Reads:
        if not self.hands_on(reader):
            return self.reads(reader)
        if reader in self._in_sums:
            return EVERYTHING
        return _before(self._read_of[reader], reader, value)


def measure_as_read(chains: Sequence[Chain], observers: dict[EdgeOrNode, nn.Module | None]) -> None:
    """Puts a `Place` before every observer of an activation.

    Args:
        chains: what was annotated.
        observers: torchao's, by edge and output; changed in place.
    """
    _Placement(chains, observers).run()


class _Placement:
    def __init__(
        self, chains: Sequence[Chain], observers: dict[EdgeOrNode, nn.Module | None]
    ) -> None:
        self._chains, self._observers = chains, observers
        self._readers = Readers(chains)
        # A tensor is in two groups if it is quantized twice, for readers that want it otherwise.
        self._places: dict[tuple[int, Node], Place] = {}
        self._read_by: dict[tuple[int, Node], dict[Node, None]] = {}

    def run(self) -> None:
        weights = {(chain.op.weight(chain.root), chain.root) for chain in self._chains}
        keys = [
            (key, observer)
            for key, observer in self._observers.items()
            if observer is not None and key not in weights
        ]
        for key, observer in keys:
            value = key if isinstance(key, Node) else key[0]
            readers = self._read_by.setdefault((id(observer), value), {})
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
        direct = self._direct(observer, value)
        reads = _union(self._readers.reads(reader) for reader in direct)
        observes = bool(direct) or not self._read_by[id(observer), value]
        place = Place(observer, name_of(value), reads, observes)
        self._places[id(observer), value] = place
        return place

    def _direct(self, observer: nn.Module, value: Node) -> list[Node]:
        readers = self._read_by[id(observer), value]
        return [reader for reader in readers if not self._readers.hands_on(reader)]

    def _join(self, chain: Chain) -> None:
        """Lets a sum that is read in part measure its operands."""
        reads = self._readers.reads_of_sum(chain.root)
        signs = chain.op.signs(chain.root)
        whole = self._place_at(chain.last)
        if reads == EVERYTHING or signs is None or whole is None:
            return
        values = chain.op.activations(chain.root)
        found = [self._place_at((value, chain.root)) for value in values]
        a, b = found
        if a is None or b is None:
            return
        whole.sum = Sum((a, b), signs, reads)
        for place, value in zip((a, b), values, strict=True):
            place.keeps = True
            direct = self._direct(place.measure, value)
            place.awaits_sum = all(
                self._readers.reads_of_sum(reader) != EVERYTHING for reader in direct
            )
            if place.awaits_sum and isinstance(place.measure, FakeQuantizeBase):
                # In training the sum is not known yet. Twice the depth is there for what the other
                # operand adds.
                place.reads = Reads(low=reads.low, dim=-1, depth=2 * reads.depth)

    def _place_at(self, key: EdgeOrNode) -> Place | None:
        found = self._observers.get(key)
        if found is None and isinstance(key, tuple):
            found = self._observers.get(key[0])
        return found if isinstance(found, Place) else None


def _is_cut(reads: Reads, sentinel: float) -> bool:
    """Whether a reader cuts what lies as far out as the sentinel."""
    if sentinel < 0:
        return reads.depth < math.inf or reads.low > -math.inf
    return reads.high < math.inf


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
    shape, target = shape_at_export(value), aten_target(mover)
    assert target is not None
    along = torch.arange(shape[-1]).expand(shape)
    moved = target(along, *at_export(list(vars(arguments(mover)).values())[1:]))
    across = torch.arange(shape[-1]).reshape(-1, *[1] * (moved.ndim - 1 - reads.dim))
    rows_stay = (
        moved.shape[reads.dim] == shape[-1]
        and moved.numel() == along.numel()
        and bool((moved == across).all())
    )
    return Reads(reads.low, reads.high, len(shape) - 1, reads.depth) if rows_stay else EVERYTHING
