"""Deciding what is quantized, and how: annotations for torchao's PT2E flow."""

from .batch_norms import protect_batch_norms
from .config import PTQ, QAT, QuantizationConfig
from .quantizer import Skipped, VpuQuantizer

__all__ = ["PTQ", "QAT", "QuantizationConfig", "Skipped", "VpuQuantizer", "protect_batch_norms"]
