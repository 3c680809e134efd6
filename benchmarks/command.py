"""What the benchmark commands have in common: options, and where results go."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from . import machine
from .models import MODELS

INSTALL = "pip install -e '.[bench]'"
USUAL_MODELS = ("resnet18", "resnet50", "mobilenet_v2")

_PIPED = 200  # columns, where no terminal says how many it has

out = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED)
err = Console(stderr=True)


def parser(documentation: str | None) -> argparse.ArgumentParser:
    """With the options that every command has."""
    result = argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument(
        "--cache",
        type=_directory,
        default="build/benchmarks",
        metavar="DIR",
        help="where compiled models are kept (default build/benchmarks)",
    )
    result.add_argument(
        "--json", type=_file(".json"), metavar="FILE.json", help="write the results there"
    )
    result.add_argument(
        "--plot", type=_file(".svg"), metavar="FILE.svg", help="draw the results there"
    )
    result.add_argument("--quick", action="store_true", help="few runs: to see that it works")
    return result


def parse(commands: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, when all that they need is there."""
    options = commands.parse_args()
    if options.plot is not None and find_spec("matplotlib") is None:
        commands.error(f"--plot needs matplotlib, which is not installed: {INSTALL}")
    if "models" in options and find_spec("torchvision") is None:
        commands.error(f"the models need torchvision, which is not installed: {INSTALL}")
    for threads in options.threads if "threads" in options else []:
        if threads > machine.cpu_count():
            commands.error(f"--threads {threads}: this process has {machine.cpu_count()} CPUs")
    try:
        machine.chosen_isa()
    except ValueError as error:
        commands.error(str(error))
    return options


def add_models(commands: argparse.ArgumentParser) -> None:
    """--models, of which there is at least one."""
    commands.add_argument(
        "--models",
        nargs="+",
        choices=MODELS,
        default=USUAL_MODELS,
        metavar="MODEL",
        help=f"of {', '.join(MODELS)} (default {' '.join(USUAL_MODELS)})",
    )


def add_threads(commands: argparse.ArgumentParser) -> None:
    """--threads: counts, by default 1 and 2 as far as there are CPUs."""
    commands.add_argument(
        "--threads",
        nargs="+",
        type=positive,
        default=[count for count in (1, 2) if count <= machine.cpu_count()],
        metavar="N",
        help="numbers of threads (default 1 2)",
    )


def positive(text: str) -> int:
    """For argparse: a count."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _directory(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a directory")
    return path


def _file(suffix: str) -> Callable[[str], Path]:
    def parse_path(text: str) -> Path:
        path = Path(text)
        if path.suffix != suffix:
            raise argparse.ArgumentTypeError(f"{text!r} does not end with {suffix}")
        if not path.parent.is_dir():
            raise argparse.ArgumentTypeError(f"{str(path.parent)!r} is not a directory")
        return path

    return parse_path


def show_machine(results: dict[str, Any]) -> None:
    out.print(machine.text(results["machine"]), highlight=False, soft_wrap=True)


def progress() -> Progress:
    """A bar on stderr, so that results can be piped."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )


def write_json(path: Path | None, results: dict[str, Any]) -> None:
    """Does nothing without a path."""
    if path is not None:
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        err.print(f"wrote {path}")
