"""How long lowering takes, and how large the result is: the VPU against XNNPACK in the same run.

Times `to_edge_transform_and_lower` alone, without quantization and export before it. The two take
turns, each time in a process of its own; the shortest of each one's times counts, since whatever
else runs on the machine can only add.

    python -m benchmarks.compile_time --model resnet50
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer

from benchmarks.models import MODELS, load_model, random_images

BACKENDS = ("vpu", "xnnpack")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--rounds", type=int, default=2, help="turns per backend (default 2)")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--only", choices=BACKENDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is not None:
        print(json.dumps(lower(options.model, options.only)))
        return
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it must be at least 1")
    results = compare(options.model, options.rounds)
    show(options.model, results)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def compare(model: str, rounds: int) -> dict[str, Any]:
    """Runs the backends in turns. Times in seconds, sizes in bytes; ratios are VPU / XNNPACK."""
    console = Console(stderr=True)
    runs: dict[str, list[dict[str, Any]]] = {backend: [] for backend in BACKENDS}
    for turn in range(rounds):
        for backend in BACKENDS:
            with console.status(f"{model}, round {turn + 1} of {rounds}: {backend}"):
                runs[backend].append(_in_a_process(model, backend))
    results: dict[str, Any] = {
        backend: {
            "seconds": min(run["seconds"] for run in runs[backend]),
            "all_seconds": [run["seconds"] for run in runs[backend]],
            "pte_bytes": runs[backend][0]["pte_bytes"],
            "delegates": runs[backend][0]["delegates"],
        }
        for backend in BACKENDS
    }
    vpu, xnnpack = (results[backend] for backend in BACKENDS)
    results["model"] = model
    results["time_ratio"] = vpu["seconds"] / xnnpack["seconds"]
    results["size_ratio"] = vpu["pte_bytes"] / xnnpack["pte_bytes"]
    return results


def _in_a_process(model: str, backend: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.compile_time", "--model", model, "--only", backend]
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{backend} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def lower(model: str, backend: str) -> dict[str, Any]:
    """Quantizes for a backend, lowers for it, and says what that took."""
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    inputs = (random_images(1),)
    exported = torch.export.export(load_model(model), inputs).module()
    quantizer, partitioner = _parts(backend)
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        prepared(*inputs)
    program = torch.export.export(convert_pt2e(prepared), inputs)

    start = time.perf_counter()
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    seconds = time.perf_counter() - start

    modules = edge.exported_program().graph_module.children()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.pte")
        edge.to_executorch().save(str(path))
        return {
            "seconds": seconds,
            "pte_bytes": path.stat().st_size,
            "delegates": sum(isinstance(module, LoweredBackendModule) for module in modules),
        }


def _parts(backend: str) -> tuple[Quantizer, Any]:
    if backend == "vpu":
        from executorch_vpu import VpuPartitioner, VpuQuantizer

        return VpuQuantizer(), VpuPartitioner()
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    config = get_symmetric_quantization_config(is_per_channel=True)
    return XNNPACKQuantizer().set_global(config), XnnpackPartitioner()


def show(model: str, results: dict[str, Any]) -> None:
    table = Table(title=f"Lowering {model}")
    for column in ("", "seconds", "delegates", ".pte"):
        table.add_column(column, justify="right" if column else "left")
    for backend in BACKENDS:
        r = results[backend]
        table.add_row(backend, f"{r['seconds']:.2f}", str(r["delegates"]), f"{r['pte_bytes']:,} B")
    table.add_row(
        "VPU / XNNPACK", f"{results['time_ratio']:.3f}", "", f"{results['size_ratio']:.4f}"
    )
    Console().print(table)


if __name__ == "__main__":
    main()
