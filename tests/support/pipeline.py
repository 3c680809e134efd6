"""The road from a float model to results, as tests walk it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from executorch.exir import EdgeProgramManager
from executorch.exir.lowered_backend_module import LoweredBackendModule
from numpy.typing import NDArray
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Interpreter, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from executorch_vpu import VPU_OPS, VpuQuantizer
from executorch_vpu.backend.builder import ProgramBuilder
from executorch_vpu.backend.constants import constant_of
from executorch_vpu.backend.program import VpuProgram
from executorch_vpu.backend.reference import Reference
from executorch_vpu.backend.units import Unit, is_quantize
from executorch_vpu.partitioner.plan import Plan, make_plan

Inputs = tuple[torch.Tensor, ...]


def quantize(
    model: torch.nn.Module,
    inputs: Inputs,
    calibration: Iterable[Inputs] | None = None,
    exported: GraphModule | None = None,
    **quantizer: Any,
) -> GraphModule:
    """PTQ: the Q/DQ graph, calibrated on `inputs` unless other batches are given."""
    if exported is None:
        exported = torch.export.export(model.eval(), inputs).module()
    prepared = prepare_pt2e(exported, VpuQuantizer(**quantizer))
    with torch.no_grad():
        for batch in calibration or [inputs]:
            prepared(*batch)
    return convert_pt2e(prepared)


def lower_whole(program: ExportedProgram) -> tuple[VpuProgram, Plan]:
    """The VPU program of a quantized program that is one subgraph with nothing on the CPU."""
    plan = make_plan(program)
    assert not plan.reasons, {node.name: reason for node, reason in plan.reasons.items()}
    assert len(plan.subgraphs) == 1
    return ProgramBuilder().lower(plan.graph, VPU_OPS), plan


def quantized_values(
    program: ExportedProgram, plan: Plan, inputs: Inputs
) -> dict[str, NDArray[np.int8]]:
    """What the float Q/DQ graph computes: the int8 value of every quantize node, by name."""
    values: dict[str, NDArray[np.int8]] = {}

    class Recorder(Interpreter):
        def run_node(self, n: Node) -> Any:
            result = super().run_node(n)
            if is_quantize(n):
                values[n.name] = result.numpy()
            return result

    given = iter(inputs)
    arguments = [
        constant_of(node) if constant_of(node) is not None else next(given)
        for node in plan.graph.nodes
        if node.op == "placeholder"
    ]
    with torch.no_grad():
        Recorder(GraphModule(program.graph_module, plan.graph)).run(*arguments)
    return values


def worst_unit_error(program: ExportedProgram, inputs: Inputs) -> tuple[int, str]:
    """Runs every unit on the Q/DQ graph's own int8 operands: (largest difference in LSB, where)."""
    vpu, plan = lower_whole(program)
    expected = quantized_values(program, plan, inputs)
    # By buffer: a step's output and the value it defines may be two shapes of one memory.
    stored: dict[int, NDArray] = {}
    for name, (tensor, layout) in vpu.values.items():
        data = np.ascontiguousarray(expected[name].transpose(layout))
        stored.setdefault(id(vpu.tensors[tensor].buffer), data)
    forced = {
        step.output: stored[id(out.buffer)].reshape(out.shape)
        for step in vpu.steps
        if id((out := vpu.tensors[step.output]).buffer) in stored
    }
    reference = Reference(vpu)
    reference.run([x.numpy() for x in inputs], forced)
    worst = (0, "")
    for step, computed in zip(vpu.steps, reference.computed, strict=True):
        if step.output in forced:
            error = np.abs(computed.astype(np.int16) - forced[step.output].astype(np.int16)).max()
            worst = max(worst, (int(error), step.name))
    return worst


def lower_unit(unit: Unit) -> VpuProgram:
    """A program of one unit, which takes its operands and gives its output as int8."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    needed = {unit.quantize}
    for node in reversed(unit.quantize.graph.nodes):
        if node in needed and node not in unit.sources:
            needed.update(node.all_input_nodes)
    for node in unit.quantize.graph.nodes:
        if node in unit.sources and constant_of(node) is None:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
        elif node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output((copies[unit.quantize],))
    return ProgramBuilder().lower(graph, VPU_OPS)


def worst_error_by_unit(program: ExportedProgram, inputs: Inputs) -> tuple[int, str]:
    """Like `worst_unit_error`, for a program of any number of subgraphs: every unit on its own."""
    plan = make_plan(program)
    values = quantized_values(program, plan, inputs)
    worst = (0, "")
    for unit in (unit for subgraph in plan.subgraphs for unit in subgraph.units):
        sources = [s.name for s in dict.fromkeys(unit.sources) if constant_of(s) is None]
        vpu = lower_unit(unit)
        order = [name for name in values if name in sources]
        [computed] = Reference(vpu).run([values[name] for name in order])
        expected = values[unit.quantize.name]
        error = np.abs(computed.astype(np.int16) - expected.astype(np.int16)).max()
        worst = max(worst, (int(error), unit.name))
    return worst


def sqnr_db(expected: torch.Tensor | NDArray, actual: torch.Tensor | NDArray) -> float:
    """Signal to quantization noise ratio in dB; inf if equal."""
    signal, noisy = np.asarray(expected, np.float64), np.asarray(actual, np.float64)
    noise = float(((signal - noisy) ** 2).sum())
    return float("inf") if noise == 0 else 10 * float(np.log10((signal**2).sum() / noise))


def delegates(edge: EdgeProgramManager) -> list[LoweredBackendModule]:
    """The delegated subgraphs of an edge program."""
    module = edge.exported_program().graph_module
    return [
        getattr(module, str(node.target))
        for node in module.graph.nodes
        if node.op == "get_attr" and "lowered_module" in str(node.target)
    ]


def run_pte(
    program: bytes, inputs: Sequence[torch.Tensor], name: str = "forward"
) -> list[torch.Tensor]:
    """Runs a .pte in ExecuTorch's Python runtime, with the VPU backend registered."""
    from executorch.runtime import Runtime

    import executorch_vpu.runtime  # noqa: F401

    loaded = Runtime.get().load_program(program)  # kept: a method reads the program's memory
    method = loaded.load_method(name)
    assert method is not None
    return [output.clone() for output in method.execute(list(inputs))]
