"""From a float model to a .pte, for the VPU and for ExecuTorch's own int8 backend, XNNPACK.

Each is quantized by its own quantizer, with the same images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.export import ExportedProgram

from .models import load_model, random_images

if TYPE_CHECKING:
    from torchao.quantization.pt2e.quantizer import Quantizer

Backend = Literal["vpu", "xnnpack"]
BACKENDS: tuple[Backend, ...] = ("vpu", "xnnpack")


def calibration_images() -> list[torch.Tensor]:
    """Not the image that is measured, which is random_images(1)."""
    return [random_images(1, seed) for seed in range(1, 5)]


def quantize(model: str, backend: Backend) -> ExportedProgram:
    """The model with a backend's quantizes and dequantizes in it."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    inputs = (random_images(1),)
    exported = torch.export.export(load_model(model), inputs).module()
    prepared = prepare_pt2e(exported, _quantizer(backend))
    with torch.no_grad():
        for image in calibration_images():
            prepared(image)
    return torch.export.export(convert_pt2e(prepared), inputs)


def lower(program: ExportedProgram, backend: Backend) -> Any:
    """The edge program, with the backend's parts in it."""
    from executorch.exir import to_edge_transform_and_lower

    return to_edge_transform_and_lower(program, partitioner=[_partitioner(backend)])


def _quantizer(backend: Backend) -> Quantizer:
    if backend == "vpu":
        from executorch_vpu import VpuQuantizer

        return VpuQuantizer()
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))


def _partitioner(backend: Backend) -> Any:
    if backend == "vpu":
        from executorch_vpu import VpuPartitioner

        return VpuPartitioner()
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return XnnpackPartitioner()
