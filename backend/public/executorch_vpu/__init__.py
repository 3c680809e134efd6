"""executorch-vpu: an int8 NPU backend for ExecuTorch.

    from executorch_vpu import quantize, VpuQuantizer, VpuPartitioner, VPU_OPS, partition_report
    import executorch_vpu.runtime  # registers VpuBackend with ExecuTorch's runtime in this process

The names are loaded when first used: running a program needs none of the export stack.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend.ops import VPU_OPS
    from .partitioner.partitioner import VpuPartitioner
    from .partitioner.report import PartitionReport, partition_report
    from .quantizer.flow import quantize
    from .quantizer.places import check_calibration
    from .quantizer.quantizer import VpuQuantizer

_HOMES = {
    "VPU_OPS": "backend.ops",
    "VpuPartitioner": "partitioner.partitioner",
    "PartitionReport": "partitioner.report",
    "partition_report": "partitioner.report",
    "VpuQuantizer": "quantizer.quantizer",
    "check_calibration": "quantizer.places",
    "quantize": "quantizer.flow",
}

__all__ = [
    "VPU_OPS",
    "PartitionReport",
    "VpuPartitioner",
    "VpuQuantizer",
    "check_calibration",
    "partition_report",
    "quantize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
