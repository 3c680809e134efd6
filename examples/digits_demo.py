"""From training to a program that runs on the VPU, on real images, in about a minute.

Trains a residual network on handwritten digits, quantizes it, reports what will run where, lowers
it, and runs every held-out image through the .pte on the VPU, inside ExecuTorch's runtime. For
comparison the same network goes through ExecuTorch's XNNPACK backend, float and int8.

Writes model.pte, report.json and report.svg. Exits with 1 if the VPU loses more than 0.5 points of
accuracy against the float model, or agrees with the quantized graph on fewer than 99.5 % of the
images.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from digits import DigitNet, Split, digits, train
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.partitioner import Partitioner
from executorch.runtime import Runtime
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer

import executorch_vpu.runtime  # registers VpuBackend with ExecuTorch's runtime
from executorch_vpu import VpuPartitioner, VpuQuantizer, partition_report
from executorch_vpu.partitioner.columns import Columns

MAX_LOSS = 0.5  # points of accuracy, against the float model
MIN_AGREEMENT = 99.5  # % of images, with the quantized graph

console = Console()
Model = Callable[[Tensor], Tensor]


@dataclass
class Contender:
    """A way to run the network: from images [1, 1, 8, 8] to logits [1, 10]."""

    name: str
    run: Model
    nbytes: int | None = None  # of its .pte
    predictions: Tensor | None = None
    latency: float | None = None  # seconds per image


def main() -> int:
    options = _arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)  # torch's and torchao's, about themselves, and so are these:
    warnings.filterwarnings("ignore", category=FutureWarning)
    torch.set_num_threads(1)  # threads cost a network of this size more than they give
    torch.manual_seed(options.seed)
    training, held_out = digits(options.seed)

    model = _train(training, options.epochs)
    example = (held_out.images[:1],)
    with console.status("Quantizing"):
        calibration = training.images[:256]
        quantized = _quantize(model, example, VpuQuantizer(), calibration)
        config = get_symmetric_quantization_config(is_per_channel=True)
        xnnpack = XNNPACKQuantizer().set_global(config)
        for_xnnpack = _quantize(model, example, xnnpack, calibration)
    _report(quantized, example, options.output)

    with console.status("Lowering"):
        vpu, *peers = [
            _lower(name, module, example, partitioner, options.output / file)
            for name, module, partitioner, file in (
                ("VPU, int8", quantized, VpuPartitioner(), "model.pte"),
                ("XNNPACK, int8", for_xnnpack, XnnpackPartitioner(), "xnnpack-int8.pte"),
                ("XNNPACK, float", model, XnnpackPartitioner(), "xnnpack-float.pte"),
            )
        ]
    float_model = Contender("PyTorch, float", model)
    graph = Contender("PyTorch, Q/DQ", quantized)
    contenders = [float_model, graph, vpu, *peers]
    _predict(contenders, held_out)
    with console.status("Timing"):
        _time([vpu, *peers], held_out.images[:1])
    _print_results(contenders, graph, vpu, held_out.labels)
    console.print(f"Written to {options.output}: model.pte, report.json and the picture")
    return _verdict(float_model, graph, vpu, held_out.labels)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="directory")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the split, weights and training")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs is {options.epochs}; it must be at least 1")
    return options


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _train(data: Split, epochs: int) -> nn.Module:
    with _progress() as progress:
        task = progress.add_task("Training", total=epochs)
        return train(
            DigitNet(),
            data,
            epochs,
            lambda epoch, loss: progress.update(
                task, completed=epoch, description=f"Training, loss {loss:.3f}"
            ),
        )


def _quantize(
    model: nn.Module, example: tuple[Tensor], quantizer: Quantizer, calibration: Tensor
) -> GraphModule:
    prepared = prepare_pt2e(torch.export.export(model, example).module(), quantizer)
    with torch.no_grad():
        for image in calibration.split(1):
            prepared(image)
    return convert_pt2e(prepared)


def _report(quantized: GraphModule, example: tuple[Tensor], output: Path) -> None:
    report = partition_report(quantized, example)
    console.print(report)
    report.save(output / "report.json")
    try:
        report.save(output / "report.svg")
    except RuntimeError as error:
        console.print(f"No picture: {error}")


def _lower(
    name: str, module: nn.Module, example: tuple[Tensor], partitioner: Partitioner, path: Path
) -> Contender:
    """Saves a program and loads it again."""
    exported = torch.export.export(module, example)
    lowered = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    lowered.to_executorch().save(str(path))
    method = Runtime.get().load_program(path).load_method("forward")
    assert method is not None
    return Contender(name, lambda image: method.execute([image])[0], path.stat().st_size)


def _predict(contenders: Sequence[Contender], data: Split) -> None:
    """Runs every image through every contender, one by one."""
    with _progress() as progress, torch.no_grad():
        for contender in contenders:
            task = progress.add_task(contender.name, total=len(data.labels))
            digits = []
            for image in data.images.split(1):
                digits.append(contender.run(image).argmax(1))
                progress.advance(task)
            contender.predictions = torch.cat(digits)


def _time(contenders: Sequence[Contender], image: Tensor, rounds: int = 30) -> None:
    """The median time of one image, taken in turns, so that all meet the same disturbances."""
    runs = 20
    taken: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            start = time.perf_counter()
            for _ in range(runs):
                contender.run(image)
            taken[contender.name].append((time.perf_counter() - start) / runs)
    for contender in contenders:
        contender.latency = statistics.median(taken[contender.name])


def _share(flags: Tensor) -> float:
    return 100 * flags.float().mean().item()


def _print_results(
    contenders: Sequence[Contender], graph: Contender, vpu: Contender, labels: Tensor
) -> None:
    numbers = ("accuracy", "as Q/DQ", ".pte", "latency", "VPU: faster")
    title = f"{len(labels)} held-out images, one at a time"
    table = Columns(title, ("runs on", *numbers), right=numbers)
    for c in contenders:
        assert c.predictions is not None and graph.predictions is not None
        row = [
            c.name,
            f"{_share(c.predictions == labels):.2f} %",
            f"{_share(c.predictions == graph.predictions):.2f} %",
        ]
        row += ["" if c.nbytes is None else f"{c.nbytes:,} B"]
        if c.latency is not None and vpu.latency is not None:
            row += [f"{c.latency * 1e6:.0f} us"]
            row += [""] if c is vpu else [f"{c.latency / vpu.latency:.2f}x"]
        table.add(*row)
    console.print(table)


def _verdict(float_model: Contender, graph: Contender, vpu: Contender, labels: Tensor) -> int:
    assert float_model.predictions is not None and vpu.predictions is not None
    assert graph.predictions is not None
    loss = _share(float_model.predictions == labels) - _share(vpu.predictions == labels)
    agreement = _share(vpu.predictions == graph.predictions)
    passed = loss <= MAX_LOSS and agreement >= MIN_AGREEMENT
    console.print(
        f"The VPU loses {max(loss, 0):.2f} points of accuracy (at most {MAX_LOSS}) and agrees with "
        f"the Q/DQ graph on {agreement:.2f} % of the images (at least {MIN_AGREEMENT}): "
        f"{'passed' if passed else 'FAILED'}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
