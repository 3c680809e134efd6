"""Where ranges are measured: one `Place` per tensor, between it and the observer that measures.

torchao gives every group of tensors that share their parameters one observer (or, in training, one
fake quantizer), and calls it wherever one of them passes. A place decides what of a tensor it gets
to see: all of it, the part its readers tell apart (`Reads`), or nothing, where what is read of the
tensor passes elsewhere in the group. It also knows the tensor's name when something is wrong.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torchao.quantization.pt2e import FakeQuantizeBase, ObserverBase

from ..backend.table import EVERYTHING, Reads
from ..backend.units import FEWEST_LEVELS, LEAST_OBSERVED_SCALE, MAX_SCALE
from .sentinels import LEAST_SENTINEL, sentinel_in

LARGEST_VALUE = MAX_SCALE * 127
_MASKED_ROW = -LEAST_SENTINEL / 2  # of a sum's row nothing is larger, if all of it is masked


@dataclass
class Sum:
    """That a tensor is `signs[0] * operands[0] + signs[1] * operands[1]`, and read in part: each
    operand matters only where it can lift the sum into that part.

    Attributes:
        reads: the part, along the sum's own dimensions.
    """

    operands: tuple[Place, Place]
    signs: tuple[int, int]
    reads: Reads


@dataclass
class Seen:
    """What a place has shown its observer: in how many calls, and the range; and a value beyond
    what any range can hold that it did not show."""

    ignored: float | None = None
    sentinel: float | None = None  # a number that leaves the others few levels
    calls: int = 0
    low: float = math.inf
    high: float = -math.inf


@dataclass
class Calibration:
    """All places of a model."""

    places: list[Place] = field(default_factory=list)
    warned: bool = False

    def problems(self) -> list[str]:
        found = (place.problem() for place in self.places)
        return [problem for problem in found if problem is not None]

    def warn_once(self) -> None:
        problems = [] if self.warned else self.problems()
        self.warned = True
        if problems:
            more = f"\n... and {len(problems) - 5} more" if len(problems) > 5 else ""
            warnings.warn("\n".join(("calibration:", *problems[:5])) + more, stacklevel=3)


class Place(ObserverBase):
    """Hands its tensor on as the observer does: unchanged, or fake-quantized.

    Args:
        measure: the group's observer or fake quantizer.
        name: of the tensor: "conv2d (in module layer1.0.conv1)".
        reads: what its readers tell apart.
        observes: whether the observer sees it at all.
    """

    def __init__(
        self, measure: nn.Module, name: str, reads: Reads = EVERYTHING, observes: bool = True
    ) -> None:
        super().__init__(measure.dtype, measure.is_dynamic)
        self.measure: nn.Module = measure
        self.name, self.reads, self.observes = name, reads, observes
        # The names torchao reads when it converts.
        for attribute in ("qscheme", "quant_min", "quant_max", "ch_axis", "eps"):
            if hasattr(measure, attribute):
                setattr(self, attribute, getattr(measure, attribute))
        self.seen = Seen()
        self.sum: Sum | None = None
        # Of an operand of sums nothing is measured before these are known.
        self.awaits_sum = False
        self.kept: Tensor | None = None  # by an operand, for the sum
        self.keeps = False
        self.calibration = Calibration()

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.measure, FakeQuantizeBase):
            # What does not observe is fake-quantized where it is read.
            return self.measure(cut(x, self.reads)) if self.observes else x
        detached = x.detach()
        if self.keeps:
            self.kept = detached
        if self.observes and not self.awaits_sum:
            self.observe(cut(detached, self.reads))
        if self.sum is not None and not self.awaits_sum:
            self._measure_operands(self.sum, floor(detached, self.sum.reads), detached)
        return x

    def observe(self, x: Tensor) -> None:
        """Shows the observer what a range can hold; the rest saturates.

        Raises:
            ValueError: there is a NaN, or nothing but infinities.
        """
        if x.numel() == 0:
            return
        low, high = torch.aminmax(x)
        if max(-low, high) > LARGEST_VALUE:
            held = x[x.abs() <= LARGEST_VALUE]
            if held.numel():
                self.seen.ignored = float(low if -low > high else high)
                x = held
                low, high = torch.aminmax(x)
        if not (math.isfinite(low) and math.isfinite(high)):
            what = "NaN" if bool(x.isnan().any()) else "nothing but infinities"
            raise ValueError(f"calibration: {self.name} holds {what}. Check the calibration data.")
        seen = self.seen
        seen.calls += 1
        if seen.sentinel is None and max(-low, high) >= LEAST_SENTINEL:
            seen.sentinel = sentinel_in(x)
        seen.low, seen.high = min(seen.low, float(low)), max(seen.high, float(high))
        self.measure(x)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        self.calibration.warn_once()
        measure: Any = self.measure
        scale, zero_point = measure.calculate_qparams()
        return scale, zero_point

    def problem(self) -> str | None:
        """What is wrong with the range, in words with a remedy; None if nothing is."""
        if not self.observes or isinstance(self.measure, FakeQuantizeBase):
            return None
        seen = self.seen
        if seen.calls == 0:
            never = (
                f"{self.name} was never observed: its parameters mean nothing. Run the prepared "
                "model on calibration data before convert_pt2e."
            )
            return None if _has_range(self.measure) else never
        if seen.ignored is not None:
            return (
                f"{self.name} holds {seen.ignored:.3g}, which no int8 range can: it saturates at "
                f"that of the other values, [{seen.low:.3g}, {seen.high:.3g}]. Check the "
                "calibration data; if it masks something, do so right before the softmax or the "
                "max pool, or keep the op in float with VpuQuantizer(ops=...)."
            )
        if seen.sentinel is not None:
            return (
                f"{self.name} holds {seen.sentinel:.3g} beside small numbers, which its int8 range "
                "leaves few levels. If it masks something, do so right before the softmax or the "
                "max pool; or keep the op in float with VpuQuantizer(ops=...)."
            )
        largest = max(abs(seen.low), abs(seen.high))
        if largest > LARGEST_VALUE:
            return (
                f"{self.name} reaches {largest:.3g}, beyond what int8 on the VPU can scale "
                f"({LARGEST_VALUE:.3g}): it will stay on the CPU, or lose everything smaller. "
                "Scale the tensor down, or mask with a smaller number."
            )
        if 0 < largest < FEWEST_LEVELS * LEAST_OBSERVED_SCALE:
            return (
                f"{self.name} stays below {largest:.3g}; int8 steps are at least "
                f"{LEAST_OBSERVED_SCALE:.3g}, so it becomes zero, or nearly. Scale the tensor up."
            )
        return None

    def _measure_operands(self, whole: Sum, floor: Tensor, total: Tensor) -> None:
        """Measures the operands of a sum down to where they still matter in it.

        Args:
            floor: what the sum is read down to; broadcasts against `total`, whose rows it is of.
        """
        kept = [place.kept for place in whole.operands]
        dim = whole.reads.dim
        for i, (place, sign) in enumerate(zip(whole.operands, whole.signs, strict=True)):
            own, other = kept[i], kept[1 - i]
            if not place.awaits_sum or own is None or other is None:
                continue
            # What the other operand adds at most, along the row: below, nothing lifts this one up.
            signed = (sign * own).expand_as(total)
            most = _top((whole.signs[1 - i] * other).expand_as(total), dim)
            top = _top(signed, dim)
            least = floor - most
            # Where the other one masks a whole row, this one is as it is.
            least = torch.where(top > _MASKED_ROW, torch.minimum(least, top), least)
            least = torch.where(least.isfinite(), least, -math.inf)
            place.observe(sign * torch.maximum(signed, least))
            if place.sum is not None and sign > 0:
                self._measure_operands(place.sum, least, total)


def _top(x: Tensor, dim: int | None) -> Tensor:
    """The largest value, or that of each row."""
    return x.amax() if dim is None else x.amax(dim, keepdim=True)


def _has_range(measure: nn.Module) -> bool:
    """Whether an observer has a range that this process has not seen it measure: a state loaded."""
    low, high = getattr(measure, "min_val", None), getattr(measure, "max_val", None)
    if not isinstance(low, Tensor) or not isinstance(high, Tensor) or low.numel() == 0:
        return False
    return bool((low <= high).all())


def floor(x: Tensor, reads: Reads) -> Tensor:
    """The least value of `x`, or of each row of it, that a reader tells apart."""
    if reads.dim is None or not x.numel():
        return torch.tensor(reads.low)
    top = x.amax(reads.dim, keepdim=True)
    # A row that is masked as a whole says nothing of the others' range.
    masked = top <= _MASKED_ROW
    if bool(masked.any()) and not bool(masked.all()):
        top = torch.where(masked, top[~masked].min(), top)
    return (top - reads.depth).clamp_min(reads.low)


def cut(x: Tensor, reads: Reads) -> Tensor:
    """`x` without what no reader tells apart. NaN stays NaN."""
    if reads == EVERYTHING:
        return x
    least = floor(x, reads)
    # A row of nothing but -inf has no floor; that is an error, which shows.
    return torch.maximum(x, torch.where(least.isnan(), x.amin(), least)).clamp_max(reads.high)


def places_of(prepared: nn.Module) -> list[Place]:
    """Every place of a prepared model, once."""
    return [module for module in prepared.modules() if isinstance(module, Place)]


def check_calibration(prepared: nn.Module) -> list[str]:
    """What is wrong with the ranges of a calibrated model, before `convert_pt2e`.

    Args:
        prepared: what `prepare_pt2e` returned, after calibration.
    Returns:
        A sentence for every tensor that was never observed, or whose range int8 cannot hold: the
        tensor, its module, and what to do.
    """
    return [problem for place in places_of(prepared) if (problem := place.problem()) is not None]
