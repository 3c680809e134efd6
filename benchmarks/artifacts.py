"""What the benchmarks compile, kept in a directory from run to run.

A file's name has a digest of all that goes into it: the versions of the packages that make it, and
our own sources. What changed is made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .process import in_process

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Artifact:
    """A file per model."""

    suffix: str
    make: Callable[[str, Path], None]  # of a model's name, into a file
    packages: Sequence[str]
    sources: Sequence[Path] = ()  # files, and directories of Python files

    def path(self, model: str, directory: Path) -> Path:
        """Where it is or will be."""
        return directory / f"{model}-{self._digest()}{self.suffix}"

    def get(self, model: str, directory: Path) -> Path:
        """The file, made in a process of its own if it is not there."""
        path = self.path(model, directory)
        if not path.exists():
            directory.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"unfinished-{path.name}")
            in_process(self.make, model, unfinished)
            unfinished.replace(path)
        return path

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for package in sorted(self.packages):
            digest.update(f"{package} {version(package)}\n".encode())
        for source in (*_OUR_SOURCES, *self.sources):
            files = sorted(source.rglob("*.py")) if source.is_dir() else [source]
            for file in files:
                digest.update(file.read_bytes())
        return digest.hexdigest()[:12]


_OUR_SOURCES = [_HERE / name for name in ("artifacts.py", "lowering.py", "models.py")]


def vpu_sources() -> list[Path]:
    """The directories of Python files that decide what the VPU is given."""
    found = []
    for part in ("backend", "partitioner", "quantizer", "schema"):
        spec = find_spec(f"executorch_vpu.{part}")
        assert spec is not None and spec.submodule_search_locations is not None
        found += [Path(place) for place in spec.submodule_search_locations]
    return found


def _make_vpu(model: str, path: Path) -> None:
    from .lowering import lower, quantize

    lower(quantize(model, "vpu"), "vpu").to_executorch().save(str(path))


def _make_xnnpack(model: str, path: Path) -> None:
    from .lowering import lower, quantize

    lower(quantize(model, "xnnpack"), "xnnpack").to_executorch().save(str(path))


def _make_onnx(model: str, path: Path) -> None:
    """Static QDQ by ONNX Runtime's quantizer: activations uint8, weights int8 per channel.

    That is the form both ONNX Runtime and OpenVINO are fastest with on x86, whose dot products
    multiply unsigned by signed bytes.
    """
    import tempfile

    import torch
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    from .lowering import calibration_images
    from .models import load_model, random_images

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            self._images = iter(calibration_images())

        def get_next(self) -> dict[str, np.ndarray] | None:
            image = next(self._images, None)
            return None if image is None else {INPUT: image.numpy()}

    with tempfile.TemporaryDirectory() as directory:
        exported, simplified = (Path(directory, name) for name in ("model.onnx", "simple.onnx"))
        torch.onnx.export(
            load_model(model),
            (random_images(1),),
            exported,
            dynamo=True,
            external_data=False,
            input_names=[INPUT],
        )
        quant_pre_process(exported, simplified)
        quantize_static(
            simplified,
            path,
            Images(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )


def _make_expected(model: str, path: Path) -> None:
    """What the float model answers to the image that is measured."""
    import torch

    from .models import load_model, random_images

    with torch.no_grad(), path.open("wb") as file:
        np.save(file, load_model(model)(random_images(1)).numpy())


INPUT = "image"  # of the ONNX model
EXECUTORCH = ("executorch", "torch", "torchao", "torchvision")
VPU_PTE = Artifact(".vpu.pte", _make_vpu, EXECUTORCH, vpu_sources())
XNNPACK_PTE = Artifact(".xnnpack.pte", _make_xnnpack, EXECUTORCH)
ONNX = Artifact(".onnx", _make_onnx, ("onnx", "onnxruntime", "onnxscript", "torch", "torchvision"))
EXPECTED = Artifact(".npy", _make_expected, ("torch", "torchvision"))
