"""Post-training quantization in one call: export, prepare, calibrate, check, convert."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence, Sized
from typing import TypeAlias

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from .batch_norms import protect_batch_norms
from .quantizer import VpuQuantizer
from .sizes import Call, Sizes
from .state import state_kept

Batch: TypeAlias = "Tensor | tuple[object, ...] | list[object]"


@torch.no_grad()
def quantize(
    model: nn.Module,
    example_inputs: tuple[object, ...],
    calibration: Iterable[Batch],
    *,
    quantizer: VpuQuantizer | None = None,
    progress: bool = True,
) -> GraphModule:
    """A float model's Q/DQ graph, for `torch.export.export` and VpuPartitioner.

    Args:
        model: in evaluation mode. It is not changed.
        example_inputs: what `torch.export.export` takes: the shapes the program will have.
        calibration: inputs like those the program will see; a tensor, or a tuple of the inputs.
            Their sizes may be others, such as larger batches, if those of the first batch tell
            which ones vary; of a list, those of all.
        quantizer: VpuQuantizer() if not given.
        progress: show a progress bar on stderr if that is a terminal.

    Raises:
        ValueError: the model is in training mode; `calibration` is empty; a tensor holds NaN where
            a range is measured, or a weight NaN or infinity; the model computes something else
            for batches of the calibration's size.

    Warns:
        UserWarning: nothing is quantized, or a range is of no use to int8; with what to do.
    """
    if model.training:
        raise ValueError("the model is in training mode; call model.eval() before quantizing it")
    batches = iter(calibration)
    first = list(itertools.islice(batches, 1))
    if not first:
        raise ValueError(
            "calibration has no batch: without one no range is known. Give inputs like those "
            "the program will see; an iterator that was used up before has none left."
        )
    known = calibration if isinstance(calibration, Sequence) else first
    sizes = Sizes.of(tuple(example_inputs), map(_call, known))
    total = len(calibration) if isinstance(calibration, Sized) else None
    with state_kept(model):
        exported = protect_batch_norms(sizes.export(model))
        prepared = prepare_pt2e(exported, quantizer or VpuQuantizer())
        for batch in _shown(itertools.chain(first, batches), total, progress):
            call = _call(batch)
            sizes.check(call)
            prepared(*call)
        return convert_pt2e(prepared)


def _call(batch: Batch) -> Call:
    return (batch,) if isinstance(batch, Tensor) else tuple(batch)


def _shown(batches: Iterable[Batch], total: int | None, progress: bool) -> Iterable[Batch]:
    console = Console(stderr=True)
    if not progress or not console.is_terminal:
        return batches
    return track(batches, "Calibrating", total, console=console, transient=True)
