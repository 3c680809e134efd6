"""Draws docs/images/report.svg, a partition picture: python -m docs.generate_images

The network is TinyConvNet, on a VPU without adaptive_avg_pool2d. Needs Graphviz's `dot`.
"""

from __future__ import annotations

from pathlib import Path

import torch

from executorch_vpu import PartitionReport, partition_report
from tests.models import SEED_OPS, TinyConvNet
from tests.support.pipeline import quantize

PICTURE = Path(__file__).parent / "images" / "report.svg"


def report() -> PartitionReport:
    """What the picture shows."""
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 16, 16),)
    return partition_report(quantize(TinyConvNet(), inputs, ops=SEED_OPS), inputs, ops=SEED_OPS)


if __name__ == "__main__":
    report().save(PICTURE)
    print(f"wrote {PICTURE}")
