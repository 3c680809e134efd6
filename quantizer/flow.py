"""Post-training quantization in one call: export, prepare, calibrate, check, convert."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeAlias

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from .batch_norms import protect_batch_norms
from .quantizer import VpuQuantizer

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
        quantizer: VpuQuantizer() if not given.
        progress: show a progress bar on stderr if that is a terminal.

    Raises:
        ValueError: the model is in training mode; `calibration` is empty; a tensor holds NaN where
            a range is measured, or a weight NaN or infinity.

    Warns:
        UserWarning: nothing is quantized, or a range is of no use to int8; with what to do.
    """
    if model.training:
        raise ValueError("the model is in training mode; call model.eval() before quantizing it")
    batches = 0
    with _state_kept(model):
        exported = protect_batch_norms(torch.export.export(model, example_inputs).module())
        prepared = prepare_pt2e(exported, quantizer or VpuQuantizer())
        for batch in _shown(calibration, progress):
            prepared(*((batch,) if isinstance(batch, Tensor) else batch))
            batches += 1
        if batches == 0:
            raise ValueError(
                "calibration has no batch: without one no range is known. Give inputs like those "
                "the program will see; an iterator that was used up before has none left."
            )
        return convert_pt2e(prepared)


def _shown(calibration: Iterable[Batch], progress: bool) -> Iterable[Batch]:
    total = len(calibration) if isinstance(calibration, Sized) else None
    console = Console(stderr=True)
    if not progress or not console.is_terminal:
        return calibration
    return track(calibration, "Calibrating", total, console=console, transient=True)


@contextmanager
def _state_kept(model: nn.Module) -> Iterator[None]:
    """Calibration runs the model, and so does torchao when it folds constants; the state it starts
    with is still the one to deploy."""
    saved = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, value in saved:
            buffer.copy_(value)
