"""Deciding what is quantized, and how: annotations for torchao's PT2E flow."""

from .batch_norms import protect_batch_norms
from .config import PTQ, QAT, QuantizationConfig
from .flow import quantize
from .places import check_calibration
from .quantizer import Skipped, VpuQuantizer

__all__ = [
    "PTQ",
    "QAT",
    "QuantizationConfig",
    "Skipped",
    "VpuQuantizer",
    "check_calibration",
    "protect_batch_norms",
    "quantize",
]
