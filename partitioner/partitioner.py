"""VpuPartitioner: given to `to_edge_transform_and_lower`, it delegates what the plan says."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable

# What stays on the CPU may quantize and dequantize; to_executorch() needs these kernels for it.
import executorch.kernels.quantized  # noqa: F401
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ..backend.namespace import is_mirror, overload_of
from ..backend.naming import name_of
from ..backend.ops import VPU_OPS
from ..backend.units import QUANTIZE_PER_CHANNEL, is_op
from ..backend.vpu_backend import VpuBackend
from .inputs import order_warnings, strided_inputs, take_contiguous
from .plan import check_min_ops, make_plan
from .ranges import range_warnings
from .rewrite import Boundary, check_boundary, tag_of, write_plan

logger = logging.getLogger(__name__)


def _refuse_unfolded_weights(program: ExportedProgram) -> None:
    """ExecuTorch's quantize_per_channel ends the process when it runs."""
    for node in program.graph.nodes:
        if overload_of(node) is QUANTIZE_PER_CHANNEL:
            raise ValueError(
                f"{node.name} quantizes {name_of(node.all_input_nodes[0])} per channel when the "
                "program runs, which ExecuTorch cannot. A weight that is computed from the "
                "model's inputs must stay in float: VpuQuantizer leaves it so. One that is "
                "computed from constants is folded by convert_pt2e(..., fold_quantize=True), "
                "its default."
            )


class VpuPartitioner(Partitioner):
    """Delegates the int8 subgraphs of a quantized program to the VPU.

    Args:
        ops: the ATen overloads the VPU has, a subset of VPU_OPS; None for all.
        min_ops: subgraphs with fewer ops than this stay on the CPU.
        boundary: what crosses between CPU and VPU. "float": the delegate takes and gives float32
            and converts on its side. "int8": quantize and dequantize stay outside, for programs
            whose inputs and outputs are int8.

    Raises:
        ValueError: an argument is not one of the above.
    """

    def __init__(
        self,
        ops: Iterable[OpOverload] | None = None,
        min_ops: int = 1,
        boundary: Boundary = "float",
    ) -> None:
        super().__init__()
        check_boundary(boundary)
        check_min_ops(min_ops)
        self._ops = VPU_OPS.subset(ops)
        self._min_ops = min_ops
        self._boundary = boundary
        self._delegation = DelegationSpec(VpuBackend.__name__, [])
        self._programs = itertools.count()
        self._planned: dict[str, list[str]] = {}  # tag -> op names, for all programs seen
        self._hook_ran = False

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Makes the plan and writes it into a copy of the graph; the caller's program is kept.

        Raises:
            ValueError: the program quantizes a weight when it runs, which ExecuTorch cannot;
                another VpuPartitioner has planned it; or it works for no inputs but such as lie
                in memory like the examples, which the runtime does not give.
        """
        self._hook_ran = True
        _refuse_unfolded_weights(exported_program)
        if any(is_mirror(node) for node in exported_program.graph.nodes):
            raise ValueError(
                "Another VpuPartitioner has planned this program already: give one of them all "
                "the ops the VPU has. Partitioners of other backends may stand before and behind "
                "it in the list."
            )
        plan = make_plan(exported_program, self._ops, self._min_ops)
        strided = strided_inputs(plan.graph, exported_program)
        for warning in (*order_warnings(strided), *range_warnings(plan)):
            logger.warning(warning)
        if not plan.subgraphs:
            logger.warning(
                "Nothing to delegate to the VPU: all %d ops stay on the CPU. "
                "executorch_vpu.partition_report() says why.",
                len(plan.ops),
            )
        prefix = f"vpu{next(self._programs)}"
        self._planned.update(write_plan(plan, prefix, self._boundary))
        module = GraphModule(exported_program.graph_module, plan.graph)
        take_contiguous(module, strided)
        module.meta.update(exported_program.graph_module.meta)
        return exported_program._update(module, exported_program.graph_signature)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Turns the plan's marks into delegation tags.

        Raises:
            RuntimeError: an op of the plan went missing between planning and here.
        """
        if not self._hook_ran:
            logger.warning(
                "VpuPartitioner plans on the ATen graph, before decomposition, which only "
                "to_edge_transform_and_lower() shows it: with to_edge().to_backend() everything "
                "stays on the CPU."
            )
        found: dict[str, int] = {}
        strays: list[Node] = []
        for node in exported_program.graph.nodes:
            # Functionalization makes the views of a buffer anew where they are read after a write,
            # and gives them the reader's mark: only what was renamed is of the plan.
            if not is_mirror(node):
                continue
            tag = tag_of(node)
            if tag is None:
                strays.append(node)
                continue
            node.meta["delegation_tag"] = tag
            if is_op(node):
                found[tag] = found.get(tag, 0) + 1
        self._check(found, strays)
        tag_constant_data(exported_program)
        tags = dict.fromkeys(found, self._delegation)
        return PartitionResult(exported_program, tags)

    def _check(self, found: dict[str, int], strays: list[Node]) -> None:
        if strays:
            raise RuntimeError(
                f"planned for the VPU but no longer marked: {', '.join(n.name for n in strays)}. "
                'A pass between planning and partitioning dropped node.meta["custom"].'
            )
        for tag, count in found.items():
            planned = self._planned.get(tag)
            if planned is not None and count != len(planned):
                raise RuntimeError(
                    f"subgraph {tag} was planned with {len(planned)} ops, {count} arrived: "
                    f"{', '.join(planned)}. A pass between planning and partitioning changed them."
                )
