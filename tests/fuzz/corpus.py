"""What fuzzing starts from: programs of single instructions, and of the op table's samples.

python -m tests.fuzz.corpus DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from executorch_vpu.backend.interpreter import VpuInterpreter
from executorch_vpu.backend.serialize import serialize
from tests.kernels.cases import STRATEGIES, examples
from tests.ops.samples import SAMPLES
from tests.support.pipeline import lower_whole, quantize

EXAMPLES = 40  # per instruction
MOST_WORK = 200_000  # multiply-accumulates, or bytes of arguments: larger ones run too seldom


def write(blob: bytes, path: Path) -> None:
    program = VpuInterpreter(blob, isa="scalar")
    macs = sum(i.macs for i in program.instructions)
    if max(macs, len(blob)) <= MOST_WORK:
        path.write_bytes(blob)


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name in sorted(STRATEGIES):
        for i, case in enumerate(examples(name, EXAMPLES)):
            write(serialize(case.program()), directory / f"{name}-{i}")
    targets = set()
    for i, sample in enumerate(SAMPLES):
        if sample.target in targets:
            continue
        targets.add(sample.target)
        inputs = sample.inputs()
        program, _ = lower_whole(torch.export.export(quantize(sample.model, inputs), inputs))
        write(serialize(program), directory / f"sample-{i}")
    print(f"{directory}: {len(list(directory.iterdir()))} programs")


if __name__ == "__main__":
    main()
