"""Calibration with batches of another size than the program will have.

An exported graph takes inputs of the sizes it was exported with. Those that differ between the
example inputs and the calibration are left open in it, if the model computes the same for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.fx import GraphModule

from .state import state_kept

Call = tuple[object, ...]


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model's inputs.

    Attributes:
        calls: inputs of every combination of sizes; the example's, those the program will have,
            first.
        varying: of every input, the dimensions along which sizes differ.
    """

    calls: tuple[Call, ...]
    varying: tuple[frozenset[int], ...]

    @staticmethod
    def of(example: Call, calibration: Iterable[Call]) -> Sizes:
        """
        Raises:
            ValueError: an input has another number of dimensions in the calibration.
        """
        calls = {str(_shapes(example)): example}
        varying: list[set[int]] = [set() for _ in pytree.tree_leaves(example)]
        for call in calibration:
            for dims, a, b in zip(varying, _shapes(example), _shapes(call), strict=False):
                if len(a) != len(b):
                    raise ValueError(
                        f"calibration has inputs of the sizes {_shapes(call)}, the example inputs "
                        f"{_shapes(example)}: they must have the same number of dimensions"
                    )
                dims.update(d for d in range(len(a)) if a[d] != b[d])
            calls.setdefault(str(_shapes(call)), call)
        return Sizes(tuple(calls.values()), tuple(map(frozenset, varying)))

    def check(self, call: Call) -> None:
        """
        Raises:
            ValueError: a call has sizes that the export does not take.
        """
        shapes = zip(self.varying, _shapes(self.calls[0]), _shapes(call), strict=False)
        for dims, a, b in shapes:
            if len(a) != len(b) or any(a[d] != b[d] for d in set(range(len(a))) - dims):
                raise ValueError(
                    f"calibration has a batch of the sizes {_shapes(call)} behind others of "
                    f"{_shapes(self.calls[-1])}. Leave it out, as DataLoader(drop_last=True) "
                    "does, or give all batches as a list, whose sizes are looked at first."
                )

    def export(self, model: nn.Module) -> GraphModule:
        """The model, exported for all these sizes.

        Raises:
            ValueError: sizes differ, and the model is not the same for all of them.
        """
        example = self.calls[0]
        if len(self.calls) == 1:
            return torch.export.export(model, example).module()
        shapes = torch.export.ShapesCollection()
        traced = self._traced()
        for leaf, dims in zip(pytree.tree_leaves(traced), self.varying, strict=True):
            if dims:
                shapes[leaf] = dict.fromkeys(sorted(dims), torch.export.Dim.DYNAMIC)
        try:
            spec = shapes.dynamic_shapes(model, traced)
            program = torch.export.export(model, traced, dynamic_shapes=spec)
        except Exception as error:
            raise ValueError(self._differs(self.calls[1], str(error).split("\n\n")[0])) from error
        # Torch's guards refuse sizes of 1 that are right, and not all that are wrong: a branch on
        # a size of 1 is settled without one.
        exported = program.module(check_guards=False)
        for call in self.calls:
            try:
                expected, actual = _output(model, call), _output(exported, call)
                torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4, equal_nan=True)
            except Exception as error:
                other = self.calls[1] if call is example else call
                raise ValueError(
                    self._differs(other, f"it computes something else.\n{error}")
                ) from error
        return exported

    def _traced(self) -> Call:
        """Inputs with no size of 1 where sizes differ: torch would take it to be fixed."""
        for call in self.calls:
            shapes = zip(_shapes(call), self.varying, strict=False)
            if all(shape[d] > 1 for shape, dims in shapes for d in dims):
                return call
        raise ValueError(
            self._differs(self.calls[1], "both have sizes of 1 where the other has not")
        )

    def _differs(self, call: Call, why: str) -> str:
        return (
            f"the model cannot be exported for the sizes of the example inputs, "
            f"{_shapes(self.calls[0])}, and of the calibration, {_shapes(call)}, at once: {why}\n"
            "Calibrate with batches of the size that the example inputs have."
        )


def _shapes(call: Call) -> list[list[int]]:
    """Of every input; [] for a number."""
    leaves = pytree.tree_leaves(call)
    return [list(leaf.shape) if isinstance(leaf, Tensor) else [] for leaf in leaves]


def _output(module: nn.Module, call: Call) -> list[Any]:
    """What a module computes, with the same random numbers every time."""
    inputs = pytree.tree_map_only(Tensor, torch.clone, call)
    with state_kept(module), torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        return pytree.tree_leaves(module(*inputs))
