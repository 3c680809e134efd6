"""Where the time goes from a float model to a .pte, for chains of more and more ops.

Convolutions, ReLUs and adds on tiny tensors, so that next to nothing is spent on data. The VPU's
part of every stage is what its quantizer, partitioner and backend take, process time in seconds;
the rest is torch.export's, torchao's and ExecuTorch's.

    python -m benchmarks.growth --ops 250 500 1000
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import torch
from torch import nn

from . import command, machine
from .command import out
from .process import in_process
from .tables import Grid

Results = dict[str, Any]
T = TypeVar("T")

OPS_PER_BLOCK = 5
STAGES = {  # name -> title
    "export": "export",
    "prepare": "prepare_pt2e",
    "calibrate": "calibration",
    "convert": "convert_pt2e",
    "export_again": "second export",
    "lower": "to_edge_transform_and_lower",
    "serialize": "to_executorch",
}


class Block(nn.Module):
    """Five ops: convolution, ReLU, convolution, add, ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + x)


def main() -> None:
    commands = command.parser(__doc__)
    commands.add_argument(
        "--ops",
        nargs="+",
        type=command.positive,
        default=[250, 500, 1000],
        metavar="N",
        help="sizes of the chain, rounded up to blocks of 5 (default 250 500 1000)",
    )
    options = command.parse(commands)
    if options.plot is not None:
        commands.error("--plot: there is no drawing of these results")
    results = run([10] if options.quick else options.ops)
    command.show_machine(results)
    out.print(table(results).rich())
    command.write_json(options.json, results)


def run(sizes: Sequence[int]) -> Results:
    """Takes a chain of every size from float to .pte, each in a process of its own."""
    rows = []
    with command.progress() as bar:
        task = bar.add_task("", total=len(sizes))
        for ops in sizes:
            bar.update(task, description=f"{ops} ops")
            rows.append(in_process(compile_chain, -(-ops // OPS_PER_BLOCK)))
            bar.advance(task)
    packages = ("executorch-vpu", "executorch", "torch", "torchao")
    return {"benchmark": "growth", "machine": machine.describe(packages), "results": rows}


def compile_chain(blocks: int) -> dict[str, Any]:
    """Process time of every stage in seconds, and of it the VPU's part (`vpu_` before its name)."""
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from executorch_vpu import VpuPartitioner, VpuQuantizer
    from executorch_vpu.backend.vpu_backend import VpuBackend

    seconds: dict[str, Any] = {"ops": blocks * OPS_PER_BLOCK}
    model = nn.Sequential(*(Block() for _ in range(blocks))).eval()
    inputs = (torch.randn(1, 4, 6, 6),)
    parts = (
        (VpuQuantizer, ("transform_for_annotation", "annotate", "validate")),
        (VpuPartitioner, ("transform_for_pre_decomposition", "partition")),
        (VpuBackend, ("preprocess",)),
    )
    with torch.no_grad(), ExitStack() as stack:
        ours = stack.enter_context(_clocked(parts))

        def stage(name: str, function: Callable[[], T]) -> T:
            ours[0], start = 0.0, time.process_time()
            result = function()
            seconds[name] = time.process_time() - start
            seconds[f"vpu_{name}"] = ours[0]
            return result

        exported = stage("export", lambda: torch.export.export(model, inputs).module())
        prepared = stage("prepare", lambda: prepare_pt2e(exported, VpuQuantizer()))
        stage("calibrate", lambda: prepared(*inputs))
        converted = stage("convert", lambda: convert_pt2e(prepared))
        program = stage("export_again", lambda: torch.export.export(converted, inputs))
        edge = stage(
            "lower",
            lambda: to_edge_transform_and_lower(program, partitioner=[VpuPartitioner()]),
        )
        stage("serialize", lambda: edge.to_executorch())
    return seconds


@contextmanager
def _clocked(parts: Sequence[tuple[type, Sequence[str]]]) -> Iterator[list[float]]:
    """Sums up, in the list's only element, the process time of calls of these methods."""
    total = [0.0]

    def clocked(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                total[0] += time.process_time() - start

        return run

    with ExitStack() as stack:
        for owner, names in parts:
            for name in names:
                wrapped: Any = clocked(getattr(owner, name))
                if isinstance(owner.__dict__.get(name), staticmethod):
                    wrapped = staticmethod(wrapped)
                stack.enter_context(patch.object(owner, name, wrapped))
        yield total


def table(results: Results) -> Grid:
    """A row per stage, two columns per size: all of it, and the VPU's part."""
    rows = results["results"]
    columns = [title for row in rows for title in (f"{row['ops']} ops", "VPU")]
    grid = Grid(
        "Seconds from a float model to a .pte, and the VPU's part of them",
        ["stage", *columns],
        left=1,
    )
    for name, title in STAGES.items():
        cells = [f"{row[key]:.2f}" for row in rows for key in (name, f"vpu_{name}")]
        grid.rows.append([title, *cells])
    sums = [
        f"{sum(row[prefix + name] for name in STAGES):.2f}"
        for row in rows
        for prefix in ("", "vpu_")
    ]
    grid.rows.append(["all", *sums])
    return grid


if __name__ == "__main__":
    main()
