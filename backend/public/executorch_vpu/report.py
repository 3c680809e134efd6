"""The fallback report of a saved program: `python -m executorch_vpu.report model.pt2`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch

from .partitioner.report import partition_report
from .partitioner.rewrite import Boundary


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the report, and saves it where --output says. Bad input: a message, exit status 2."""
    parser = argparse.ArgumentParser(
        prog="python -m executorch_vpu.report",
        description="Says which ops of a quantized program will run on the VPU, which on the CPU "
        "and why, and what crosses between them.",
    )
    parser.add_argument("program", type=Path, help="a .pt2 file, as torch.export.save writes it")
    parser.add_argument(
        "--output", type=Path, help="also save it, as .txt, .json, or a picture: .dot, .svg, .png"
    )
    parser.add_argument(
        "--min-ops", type=int, default=1, help="smallest subgraph worth delegating (default: 1)"
    )
    parser.add_argument(
        "--boundary",
        choices=get_args(Boundary),
        default="float",
        help="what the delegates take and give (default: float)",
    )
    options = parser.parse_args(arguments)
    try:
        program = torch.export.load(options.program)
    except Exception as error:  # torch.export.load raises whatever the file provokes
        parser.error(f"{options.program} cannot be read as an exported program: {error}")
    try:
        report = partition_report(program, min_ops=options.min_ops, boundary=options.boundary)
        print(report)
        if options.output is not None:
            report.save(options.output)
    except (OSError, RuntimeError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
