"""A float model becomes a program that runs on the VPU."""

import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime

import executorch_vpu.runtime  # registers VpuBackend with ExecuTorch's runtime in this process
from executorch_vpu import VpuPartitioner, partition_report, quantize

model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, padding=1, bias=False),
    torch.nn.BatchNorm2d(16),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(),
    torch.nn.Linear(16, 10),
).eval()
inputs = (torch.randn(1, 3, 32, 32),)

# Quantize. Calibrate with images of your own where this has noise.
quantized = quantize(model, inputs, [torch.randn(1, 3, 32, 32) for _ in range(16)])

# What will run where, and why.
print(partition_report(quantized, inputs))

# Lower.
edge = to_edge_transform_and_lower(
    torch.export.export(quantized, inputs), partitioner=[VpuPartitioner()]
)
edge.to_executorch().save("model.pte")

# Run.
method = Runtime.get().load_program("model.pte").load_method("forward")
print(method.execute(inputs)[0])
