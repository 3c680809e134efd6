"""Small VPU programs written by hand, and the container around them."""

from __future__ import annotations

import functools
import struct
import zlib
from typing import Any

import flatbuffers
import numpy as np

from executorch_vpu.schema import vpu_generated as fbs

INT8, INT32, FLOAT32 = fbs.DType.Int8, fbs.DType.Int32, fbs.DType.Float32
ARENA, CONSTANT = fbs.Storage.Arena, fbs.Storage.Constant
INPUT, OUTPUT = fbs.Storage.Input, fbs.Storage.Output


def tensor(dtype: int, storage: int, offset: int, shape: list[int], zero_point: int = 0) -> Any:
    t = fbs.TensorT()
    t.dtype, t.storage, t.offset, t.shape, t.zeroPoint = dtype, storage, offset, shape, zero_point
    t.scale = 0.5
    t.name = f"t{offset}"
    return t


def argument(index: int, sizes: list[int], dim_order: list[int]) -> Any:
    a = fbs.ArgumentT()
    a.tensor, a.sizes, a.dimOrder = index, sizes, dim_order
    return a


def instruction(op: str, inputs: list[int], output: int, **fields: Any) -> Any:
    table = getattr(fbs, f"{op}T")()
    for name, value in fields.items():
        assert hasattr(table, name), name
        setattr(table, name, value)
    i = fbs.InstructionT()
    i.opType, i.op = getattr(fbs.Op, op), table
    i.inputs, i.output, i.name = inputs, output, op.lower()
    return i


def lookup_program(shape: tuple[int, ...] = (1, 3, 4, 5)) -> tuple[Any, bytes]:
    """float NCHW -> Quantize -> int8 NHWC -> Lookup -> Dequantize -> float NCHW.

    The int8 values between the two also leave, channels-last.
    """
    n, c, h, w = shape
    nhwc = [n, h, w, c]
    size = n * c * h * w
    second = -(-size // 64) * 64
    p = fbs.ProgramT()
    p.tensors = [
        tensor(FLOAT32, INPUT, 0, list(shape)),
        tensor(INT8, ARENA, 0, nhwc, zero_point=-3),
        tensor(INT8, CONSTANT, 0, [256]),
        tensor(INT8, ARENA, second, nhwc, zero_point=5),
        tensor(FLOAT32, OUTPUT, 0, list(shape)),
        tensor(INT8, OUTPUT, 1, nhwc, zero_point=5),
    ]
    p.instructions = [
        instruction("Quantize", [0], 1, perm=[0, 2, 3, 1], invScale=2.0),
        instruction("Lookup", [1, 2], 3),
        instruction("Dequantize", [3], 4, perm=[0, 3, 1, 2], scale=0.25),
        instruction("Transpose", [3], 5, perm=[0, 1, 2, 3]),
    ]
    p.inputs = [argument(0, list(shape), [0, 1, 2, 3])]
    p.outputs = [
        argument(4, list(shape), [0, 1, 2, 3]),
        argument(5, list(shape), [0, 2, 3, 1]),
    ]
    p.arenaSize = 2 * second
    return p, lookup_table().tobytes()


def lookup_table() -> np.ndarray:
    """A table that is not monotonous, so that a wrong index shows."""
    return np.random.default_rng(0).permutation(256).astype(np.uint8).view(np.int8)


def lookup_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    q = np.clip(np.rint(x * np.float32(2.0)) - 3, -128, 127).astype(np.int8)
    y = lookup_table()[q.astype(np.int32) + 128]
    return (y.astype(np.float32) - np.float32(5)) * np.float32(0.25), y


def flatbuffer(program: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(program.Pack(builder), b"VPU1")
    return bytes(builder.Output())


def blob(program: Any | bytes, constants: bytes, magic: bytes = b"VPUB", version: int = 1) -> bytes:
    """`program` may also be the bytes to stand where the FlatBuffer should."""
    body = program if isinstance(program, bytes) else flatbuffer(program)
    begin = -(-(64 + len(body)) // 64) * 64
    header = struct.pack("<4sIQQQ", magic, version, len(body), begin, len(constants))
    return seal(header.ljust(64, b"\0") + body.ljust(begin - 64, b"\0") + constants)


def seal(data: bytes) -> bytes:
    """The same with the checksum its bytes have."""
    crc = zlib.crc32(data[64:], zlib.crc32(data[:32]))
    return data[:32] + struct.pack("<I", crc) + data[36:]


# A program that is one delegate call (the fixture `pte`) holds this blob.

HAND_MADE_SHAPE = (1, 3, 4, 5)


def hand_made_program() -> tuple[Any, bytes]:
    program, constants = lookup_program(HAND_MADE_SHAPE)
    for index, instruction in enumerate(program.instructions):
        instruction.debugId = index
    return program, constants


@functools.cache
def hand_made() -> bytes:
    return blob(*hand_made_program())


def with_blob(pte: bytes, data: bytes) -> bytes:
    """The program with another blob, of the same size, in the place of the hand-made one."""
    assert pte.count(hand_made()) == 1 and len(data) == len(hand_made())
    return pte.replace(hand_made(), data)
