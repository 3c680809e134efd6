"""The integer reference: runs a VpuProgram in NumPy, bit for bit what the interpreter computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .layout import transposition
from .numerics import look_up
from .program import Operand, Step, VpuProgram


def run(program: VpuProgram, inputs: Sequence[NDArray]) -> list[NDArray]:
    """Runs the program once: `Reference(program).run(inputs)`."""
    return Reference(program).run(inputs)


class Reference:
    """Runs a program and keeps what every step computed.

    Attributes:
        computed: after `run`, one array per step, physical shape.
    """

    def __init__(self, program: VpuProgram) -> None:
        self.program = program
        self.computed: list[NDArray] = []
        self._memory: dict[int, NDArray] = {}  # by buffer: tensors that share one are reshapes
        for tensor in program.tensors:
            if tensor.buffer.data is not None:
                self._memory[id(tensor.buffer)] = tensor.buffer.data

    def run(
        self, inputs: Sequence[NDArray], forced: Mapping[int, NDArray] | None = None
    ) -> list[NDArray]:
        """Runs the program.

        Args:
            inputs: one array per program input, logical shape, float32 or int8 as declared.
            forced: tensor -> data (physical shape) that the following steps read in place of what
                was computed for it: to judge every step on given operands.
        Returns:
            One array per program output, logical shape.
        Raises:
            ValueError: an input's shape or dtype is not what the program declares.
        """
        program = self.program
        if len(inputs) != len(program.inputs):
            raise ValueError(f"{len(inputs)} inputs given, {len(program.inputs)} declared")
        for argument, array in zip(program.inputs, inputs, strict=True):
            tensor = program.tensors[argument.tensor]
            if array.shape != argument.sizes or array.dtype != tensor.dtype.numpy:
                raise ValueError(
                    f"input {tensor.name}: {array.dtype} {array.shape} given, "
                    f"{tensor.dtype.numpy} {argument.sizes} declared"
                )
            self._write(argument.tensor, array.transpose(argument.dim_order))
        self.computed = []
        for step in program.steps:
            self.computed.append(self._execute(step))
            kept = (forced or {}).get(step.output, self.computed[-1])
            self._write(step.output, kept)
        return [self._logical(a.tensor, a.dim_order, a.sizes) for a in program.outputs]

    def _execute(self, step: Step) -> NDArray:
        operands = [Operand(self._read(i), self.program.tensors[i].zero_point) for i in step.inputs]
        for position, table in enumerate(getattr(step.instruction, "tables", ())):
            if table >= 0:
                through = look_up(self._read(table), operands[position].data)
                operands[position] = Operand(through, operands[position].zero_point)
        output = self.program.tensors[step.output]
        result = step.instruction.reference(operands, output)
        assert result.shape == output.shape and result.dtype == output.dtype.numpy, step
        return result

    def _read(self, tensor: int) -> NDArray:
        spec = self.program.tensors[tensor]
        return self._memory[id(spec.buffer)].reshape(spec.shape)

    def _write(self, tensor: int, data: NDArray) -> None:
        self._memory[id(self.program.tensors[tensor].buffer)] = np.ascontiguousarray(data)

    def _logical(self, tensor: int, order: Sequence[int], sizes: Sequence[int]) -> NDArray:
        stored = self._read(tensor).reshape([sizes[d] for d in order])
        return stored.transpose(transposition(tuple(order), tuple(range(len(order)))))
