"""Results as the benchmarks give them, but few."""

from __future__ import annotations

from typing import Any

MACHINE = {
    "date": "2026-01-02",
    "cpu": "A CPU",
    "cpus": 2,
    "cpu_features": ["avx2", "avx512_vnni"],
    "system": "Linux x86_64",
    "python": "3.12.0",
    "packages": {"executorch": "1.5.1"},
    "vpu_isa": "avx512vnni",
}


def _summary(median: float) -> dict[str, float]:
    return {"median": median, "low": median, "high": median, "minimum": median}


def _of_a_runtime(runtime: str, threads: int, time: float, ratio: float) -> dict[str, Any]:
    return {
        "model": "resnet18",
        "threads": threads,
        "runtime": runtime,
        "milliseconds": _summary(time),
        "ratio": _summary(ratio),
        "sqnr_db": 33.0,
    }


def _of_a_layer(layer: str, threads: int, share: float | None) -> dict[str, Any]:
    return {
        "layer": layer,
        "threads": threads,
        "models": {"resnet18": 3, "resnet50": 0},
        "macs": 115_605_504,
        "microseconds": 50.0,
        "microseconds_in_model": 61.5,
        "gmacs": 2312.1,
        "peak_share": share,
    }


def _of_a_backend(backend: str, factor: float) -> dict[str, Any]:
    return {
        "model": "resnet18",
        "backend": backend,
        "compile_seconds": 2.5 * factor,
        "load_seconds": 0.0125 * factor,
        "peak_bytes": 26e6 * factor,
        "pte_bytes": 11e6 * factor,
    }


def _of_a_conv(channels: int, threads: int) -> dict[str, Any]:
    return {
        "sweep": "channels",
        "threads": threads,
        "channels": channels,
        "size": 28,
        "kernel": 3,
        "macs": 1_806_336 * (channels // 16) ** 2,
        "microseconds": 4.0 * channels / threads,
    }


RESULTS: dict[str, dict[str, Any]] = {
    "whole_models": {
        "skipped": {},
        "results": [
            _of_a_runtime("vpu", 1, 2.04, 1),
            _of_a_runtime("openvino", 1, 3.06, 1.5),
            _of_a_runtime("vpu", 2, 1.25, 1),
            _of_a_runtime("openvino", 2, 2.5, 2),
        ],
    },
    "kernels": {
        "peak_gmacs": {"1": 3286.4, "2": 6500.0},
        "results": [
            _of_a_layer("3x3 64→64 @56", 1, 0.703),
            _of_a_layer("linear 512→1000", 1, 0.02),
            _of_a_layer("3x3 64→64 @56", 2, 0.352),
            _of_a_layer("linear 512→1000", 2, 0.01),
        ],
    },
    "footprint": {"results": [_of_a_backend("vpu", 1), _of_a_backend("xnnpack", 4)]},
    "scaling": {
        "peak_gmacs": {"1": 3286.4, "2": 6500.0},
        "results": [_of_a_conv(channels, threads) for channels in (16, 512) for threads in (1, 2)],
    },
}
for _name, _results in RESULTS.items():
    _results.update(benchmark=_name, machine=MACHINE)
