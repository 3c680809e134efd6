"""VpuProgram -> bytes: header, FlatBuffer (schema/vpu.fbs), constants.

offset  size  header field (little-endian)
     0     4  magic "VPUB"
     4     4  version
     8     8  size of the FlatBuffer, which starts at 64
    16     8  offset of the constants, a multiple of 64
    24     8  size of the constants; the blob ends with them
    32     4  CRC-32 (zlib) of bytes 0..31 and of everything from 64 on
    36    28  zero
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from typing import Any

import flatbuffers
import numpy as np

from ..schema import vpu_generated as fbs
from .memory import ALIGNMENT
from .program import Instruction, Storage, VpuProgram, Windows

MAGIC = b"VPUB"
VERSION = 1
HEADER_BYTES = 64
FILE_IDENTIFIER = b"VPU1"
_HEADER = struct.Struct("<4sIQQQ")


def serialize(program: VpuProgram) -> bytes:
    """The blob of a program whose arena is planned."""
    constants = _place_constants(program)
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(_program_table(program).Pack(builder), FILE_IDENTIFIER)
    flatbuffer = bytes(builder.Output())
    constants_offset = _aligned(HEADER_BYTES + len(flatbuffer))
    padding = bytes(constants_offset - HEADER_BYTES - len(flatbuffer))
    header = _HEADER.pack(MAGIC, VERSION, len(flatbuffer), constants_offset, len(constants))
    crc = zlib.crc32(header)
    for part in (flatbuffer, padding, constants):
        crc = zlib.crc32(part, crc)
    tail = struct.pack("<I", crc).ljust(HEADER_BYTES - len(header), b"\0")
    return b"".join((header, tail, flatbuffer, padding, constants))


def _place_constants(program: VpuProgram) -> bytes:
    """Sets every constant's offset; equal constants (shared weights, tables) are stored once."""
    section = bytearray()
    known: dict[bytes, int] = {}
    for tensor in program.tensors:
        data = tensor.buffer.data
        if tensor.buffer.storage is not Storage.CONSTANT or data is None:
            continue
        raw = data.tobytes()
        if raw not in known:
            section.extend(bytes(_aligned(len(section)) - len(section)))
            known[raw] = len(section)
            section.extend(raw)
        tensor.buffer.offset = known[raw]
    return bytes(section)


def _program_table(program: VpuProgram) -> Any:
    table = fbs.ProgramT()
    table.tensors = [
        _table(
            "Tensor",
            dtype=int(t.dtype),
            storage=int(t.buffer.storage),
            offset=t.buffer.offset,
            shape=t.shape,
            zero_point=t.zero_point,
            scale=t.scale,
            name=t.name,
        )
        for t in program.tensors
    ]
    table.instructions = [
        _table(
            "Instruction",
            op_type=getattr(fbs.Op, type(step.instruction).__name__),
            op=_instruction_table(step.instruction),
            inputs=step.inputs,
            output=step.output,
            debug_id=step.debug_id,
            name=step.name,
        )
        for step in program.steps
    ]
    for name in ("inputs", "outputs"):
        arguments = [
            _table("Argument", tensor=a.tensor, sizes=a.sizes, dim_order=a.dim_order)
            for a in getattr(program, name)
        ]
        setattr(table, name, arguments)
    table.arenaSize = program.arena_size
    return table


def _instruction_table(instruction: Instruction) -> Any:
    fields = {f.name: getattr(instruction, f.name) for f in dataclasses.fields(instruction)}
    return _table(type(instruction).__name__, **fields)


def _table(kind: str, /, **fields: Any) -> Any:
    """A table of the generated object API, filled by schema field name.

    Raises:
        AttributeError: a field the schema does not have.
    """
    table = getattr(fbs, f"{kind}T")()
    for field, value in fields.items():
        attribute = _camel(field)
        if not hasattr(table, attribute):
            raise AttributeError(f"schema/vpu.fbs: table {kind} has no field {field}")
        if isinstance(value, Windows):
            value = _table("Windows", begin=value.begin, end=value.end, step=value.step)
        elif isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, np.generic):
            value = value.item()
        setattr(table, attribute, value)
    return table


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
