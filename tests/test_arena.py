"""The arena plan of arbitrary programs, checked byte by byte and step by step."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executorch_vpu.backend.memory import ALIGNMENT, plan_arena
from executorch_vpu.backend.ops.concat import Concat
from executorch_vpu.backend.ops.conv2d import Conv2d
from executorch_vpu.backend.program import Buffer, DType, Step, Storage, Tensor, VpuProgram
from executorch_vpu.backend.weighted import RESIDUAL

sizes = st.sampled_from([1, 63, 64, 65, 100, 128, 1000, 4096]) | st.integers(1, 300)
many = settings(max_examples=150, deadline=None, database=None)


def tensor(storage: Storage, nbytes: int) -> Tensor:
    return Tensor(Buffer(storage, nbytes), DType.INT8, (nbytes,))


@st.composite
def programs(draw: st.DrawFn) -> VpuProgram:
    """Steps that read earlier tensors, some of them views, and write new ones; convolutions may
    write over their residual."""
    program = VpuProgram(tensors=[tensor(Storage.INPUT, 1), tensor(Storage.CONSTANT, 1)])
    written = [0]
    for _ in range(draw(st.integers(1, 40))):
        reads = draw(st.lists(st.sampled_from(written), min_size=1, max_size=3))
        residual = draw(st.booleans())
        nbytes = program.tensors[reads[0]].nbytes if residual else draw(sizes)
        program.tensors.append(tensor(draw(storages), nbytes))
        output = len(program.tensors) - 1
        inputs = (reads[-1], 1, 1, 1, reads[0]) if residual else tuple(reads)
        instruction = Conv2d() if residual else Concat(0, ())
        program.steps.append(Step(instruction, inputs, output))
        written.append(output)
        if draw(st.integers(0, 4)) == 0:
            source = program.tensors[output]
            program.tensors.append(Tensor(source.buffer, DType.INT8, (1, nbytes)))
            written.append(len(program.tensors) - 1)
    return program


storages = st.sampled_from([Storage.ARENA] * 5 + [Storage.OUTPUT])


def lifetimes(program: VpuProgram) -> list[tuple[Buffer, int, int]]:
    """Every arena buffer, when it is written and when it is last read or written."""
    found: dict[int, tuple[Buffer, int, int]] = {}
    for position, step in enumerate(program.steps):
        for index in (step.output, *step.inputs):
            buffer = program.tensors[index].buffer
            if buffer.storage is Storage.ARENA:
                first = found.get(id(buffer), (buffer, position, position))[1]
                found[id(buffer)] = (buffer, first, position)
    return list(found.values())


def may_share(program: VpuProgram, old: Buffer, new: Buffer, position: int) -> bool:
    """Whether a step may write `new` where `old` is, which it reads for the last time."""
    step = program.steps[position]
    reads = [program.tensors[index].buffer for index in step.inputs]
    return (
        step.instruction.overwrites == RESIDUAL
        and len(reads) > RESIDUAL
        and reads[RESIDUAL] is old
        and sum(read is old for read in reads) == 1
        and program.tensors[step.output].buffer is new
        and (old.offset, old.nbytes) == (new.offset, new.nbytes)
    )


@given(programs())
@many
def test_no_two_live_buffers_overlap(program: VpuProgram) -> None:
    plan_arena(program)
    alive = lifetimes(program)
    for i, (a, a_first, a_last) in enumerate(alive):
        assert a.offset % ALIGNMENT == 0
        assert 0 <= a.offset <= a.offset + a.nbytes <= program.arena_size
        for b, b_first, b_last in alive[:i]:
            apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
            if apart or a_last < b_first or b_last < a_first:
                continue
            old, new, shared = (b, a, a_first) if b_last == a_first else (a, b, b_first)
            assert min(a_last, b_last) == max(a_first, b_first) == shared
            assert may_share(program, old, new, shared)


@given(programs())
@many
def test_the_arena_is_no_larger_than_buffers_that_never_share(program: VpuProgram) -> None:
    plan_arena(program)
    alive = lifetimes(program)
    aligned = [-(-buffer.nbytes // ALIGNMENT) * ALIGNMENT for buffer, _, _ in alive]
    assert program.arena_size <= sum(aligned)
    assert program.arena_size == max(
        (buffer.offset + size for (buffer, _, _), size in zip(alive, aligned, strict=True)),
        default=0,
    )


@given(programs())
@many
def test_one_program_has_one_plan(program: VpuProgram) -> None:
    again = copy.deepcopy(program)
    plan_arena(program)
    plan_arena(again)
    plan_arena(again)  # a plan that is there already changes nothing
    assert again == program


@pytest.mark.parametrize("nbytes", [1, 64, 1000])
def test_a_chain_needs_two_buffers(nbytes: int) -> None:
    program = VpuProgram(tensors=[tensor(Storage.INPUT, nbytes)])
    for i in range(50):
        program.tensors.append(tensor(Storage.ARENA, nbytes))
        program.steps.append(Step(Concat(0, ()), (i,), i + 1))
    plan_arena(program)
    assert program.arena_size == 2 * -(-nbytes // ALIGNMENT) * ALIGNMENT


def test_a_gap_between_larger_buffers_is_filled() -> None:
    program = VpuProgram(tensors=[tensor(Storage.ARENA, size) for size in (640, 512, 384, 256)])
    program.tensors.insert(0, tensor(Storage.INPUT, 1))
    # 1: all the time. 2 dies at step 2, while 3 lives: then 4 fits where 2 was.
    for output, reads in ((1, (0,)), (2, (0,)), (3, (2,)), (4, (3, 1))):
        program.steps.append(Step(Concat(0, ()), reads, output))
    program.steps.append(Step(Concat(0, ()), (1, 3, 4), 4))
    plan_arena(program)
    assert [t.buffer.offset for t in program.tensors[1:]] == [0, 640, 640 + 512, 640]
    assert program.arena_size == 640 + 512 + 384
