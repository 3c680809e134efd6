"""VpuBackend: what ExecuTorch calls to turn a delegated subgraph into bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from executorch.exir.backend.backend_details import (
    BackendDetails,
    CompileSpec,
    ExportedProgram,
    PreprocessResult,
)
from executorch.exir.backend.utils import DelegateMappingBuilder
from torch.fx import Node

from .builder import ProgramBuilder
from .constants import attach_constants
from .ops import VPU_OPS
from .serialize import serialize


@final
class VpuBackend(BackendDetails):
    """ExecuTorch finds it by class name; the runtime's backend is registered under the same."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Lowers a subgraph of units, tagged by VpuPartitioner, to a VPU blob.

        Every instruction's debug identifier maps to the debug handles of its source ops.

        Raises:
            LoweringError: the subgraph has anything else in it.
        """
        mapping = DelegateMappingBuilder(generated_identifiers=True)

        def debug_id(nodes: Sequence[Node]) -> int:
            handles = {node.meta["debug_handle"] for node in nodes if "debug_handle" in node.meta}
            if not handles:  # the mapping takes no empty entries
                return -1
            return int(mapping.insert_delegate_mapping_entry(handles=sorted(handles)))

        attach_constants(edge_program.graph, edge_program)
        program = ProgramBuilder(debug_id).lower(edge_program.graph, VPU_OPS)
        return PreprocessResult(
            processed_bytes=serialize(program),
            debug_handle_map=mapping.get_delegate_mapping(),
        )
