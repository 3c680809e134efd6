"""Calls of every overload of the op table, over odd shapes: data for the conformance tests.

To add an op, add its calls here; `test_conformance.py` says what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload

from executorch_vpu import VPU_OPS

aten = torch.ops.aten
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Sample:
    """A model around one call.

    Attributes:
        target: the overload the call is of.
        model: takes one tensor per shape.
        shapes: of the float32 inputs.
        lsb: how far the integer result may be from the rounded float one.
    """

    target: OpOverload
    model: nn.Module
    shapes: tuple[Shape, ...]
    lsb: int
    name: str

    def inputs(self, channels_last: bool = False) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(len(self.name))
        inputs = [torch.randn(shape, generator=generator) * 3 for shape in self.shapes]
        if channels_last:
            inputs = [x.to(memory_format=torch.channels_last) if x.ndim == 4 else x for x in inputs]
        return tuple(inputs)


SAMPLES: list[Sample] = []


class Call(nn.Module):
    """One call of an overload on the inputs, as a list if `listed`, and further arguments.

    What an in-place overload writes to is a tensor of the model's own. What only moves or joins
    data is given something to compute, or it would not be worth a subgraph.
    """

    def __init__(self, op: OpOverload, listed: bool, args: Sequence[Any], keywords: Any) -> None:
        super().__init__()
        self.op, self.listed, self.args, self.keywords = op, listed, args, keywords
        self.writes = op._schema.is_mutable
        self.idle = VPU_OPS[op].data_movement or VPU_OPS[op].joins

    def forward(self, *xs: Tensor) -> Tensor:
        if self.writes:
            xs = (xs[0].clone(), *xs[1:])
        tensors = (list(xs),) if self.listed else xs
        y: Tensor = self.op(*tensors, *self.args, **self.keywords)
        return torch.sigmoid(y) if self.idle else y


class Nested(nn.Module):
    """The first input through `body`; the rest, and perhaps the first again, added behind it."""

    def __init__(self, body: nn.Module, tail: nn.Module, shortcut: bool = False) -> None:
        super().__init__()
        self.body, self.tail, self.shortcut = body, tail, shortcut

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return self.tail(x + y if self.shortcut else y)


def call(
    op: OpOverload,
    *shapes: Shape,
    args: Sequence[Any] = (),
    listed: bool = False,
    lsb: int = 0,
    **keywords: Any,
) -> None:
    details = [*shapes, *args, *(f"{k}={v}" for k, v in keywords.items())]
    name = f"{op.name().removeprefix('aten::')} {' '.join(map(str, details))}".replace(", ", ",")
    SAMPLES.append(Sample(op, Call(op, listed, args, keywords), shapes, lsb, name))


def layer(op: OpOverload, model: nn.Module, shape: Shape, lsb: int = 1) -> None:
    leaves = [m for m in model.modules() if not any(m.children())]
    words = "+".join(f"{type(m).__name__}({m.extra_repr()})" for m in leaves)
    name = f"{op.name().removeprefix('aten::')} {words} {shape}".replace(", ", ",")
    SAMPLES.append(Sample(op, model, (shape,), lsb, name))


# Convolutions and linear layers, and what is fused behind them.


def _conv(*args: Any, **keywords: Any) -> nn.Module:
    torch.manual_seed(3)
    return nn.Conv2d(*args, **keywords)


conv2d, conv1d = aten.conv2d, aten.conv1d
layer(conv2d.default, _conv(3, 5, 3), (2, 3, 9, 7))
layer(conv2d.default, _conv(1, 1, 1, bias=False), (1, 1, 1, 1))
layer(conv2d.default, _conv(17, 33, 1), (3, 17, 5, 1))
layer(conv2d.default, _conv(16, 8, (3, 5), (2, 3), (1, 2), bias=False), (1, 16, 11, 13))
layer(conv2d.default, _conv(6, 9, 3, dilation=(2, 3), padding=3, groups=3), (1, 6, 10, 9))
layer(conv2d.default, _conv(19, 19, 3, padding=1, groups=19), (2, 19, 7, 5))
layer(conv2d.default, _conv(5, 10, (5, 2), stride=2, padding=(2, 1), groups=5), (1, 5, 9, 8))
layer(conv2d.padding, _conv(4, 6, (2, 4), padding="same", dilation=(3, 1)), (2, 4, 7, 9))
layer(conv2d.padding, _conv(4, 7, 3, padding="valid", stride=2), (2, 4, 7, 9))
layer(conv1d.default, nn.Conv1d(3, 5, 3, stride=2, padding=2), (2, 3, 11))
layer(conv1d.default, nn.Conv1d(8, 8, 4, groups=8, dilation=2), (1, 8, 17))
layer(conv1d.padding, nn.Conv1d(3, 5, 4, padding="same"), (2, 3, 11))
layer(conv2d.default, nn.Sequential(_conv(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), (2, 3, 6, 7))
layer(conv2d.default, Nested(_conv(4, 4, 3, padding=1), nn.ReLU6(), True), (1, 4, 5, 6))
layer(conv2d.default, Nested(_conv(4, 4, 1), nn.Hardtanh(-0.5, 0.25), True), (2, 4, 3, 3))
layer(conv1d.default, Nested(nn.Conv1d(4, 4, 3, padding=1), nn.Identity(), True), (2, 4, 9))

linear = aten.linear.default
layer(linear, nn.Linear(7, 5), (3, 7))
layer(linear, nn.Linear(1, 1, bias=False), (1, 1))
layer(linear, nn.Linear(33, 17), (2, 3, 4, 33))
layer(linear, nn.Linear(9, 4), (9,))
layer(linear, Nested(nn.Linear(6, 6), nn.ReLU(), True), (5, 6))

# Elementwise with two operands.

for op in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor):
    call(op, (2, 3, 5, 4), (2, 3, 5, 4), lsb=1)
    call(op, (2, 3, 5, 4), (3, 1, 1), lsb=1)
    call(op, (3, 1, 1), (2, 3, 5, 4), lsb=1)
    call(op, (2, 1, 5, 1), (1, 3, 1, 4), lsb=1)
    call(op, (), (7,), lsb=1)
    call(op, (3, 5), args=(-1.75,))
for op in (
    aten.add_.Tensor,
    aten.sub_.Tensor,
    aten.subtract.Tensor,
    aten.subtract_.Tensor,
    aten.mul_.Tensor,
    aten.multiply.Tensor,
    aten.multiply_.Tensor,
):
    call(op, (4, 3, 5), (4, 1, 1), lsb=1)
for op in (aten.add.Tensor, aten.sub_.Tensor, aten.rsub.Scalar):
    call(op, (3, 5), args=(2,), alpha=3)
for op in (
    aten.add.Scalar,
    aten.add_.Scalar,
    aten.sub.Scalar,
    aten.sub_.Scalar,
    aten.subtract.Scalar,
    aten.subtract_.Scalar,
    aten.rsub.Scalar,
    aten.mul.Scalar,
    aten.mul_.Scalar,
    aten.multiply.Scalar,
    aten.multiply_.Scalar,
    aten.div.Scalar,
    aten.div_.Scalar,
    aten.div.Tensor,
    aten.div_.Tensor,
):
    call(op, (3, 5, 4), args=(1.25,))

# Unary functions.

for op, args in {
    aten.relu.default: (),
    aten.relu6.default: (),
    aten.hardtanh.default: (-0.75, 2.5),
    aten.clamp.default: (None, 1.5),
    aten.clamp_min.default: (0.5,),
    aten.clamp_max.default: (2,),
    aten.sigmoid.default: (),
    aten.hardsigmoid.default: (),
    aten.tanh.default: (),
    aten.leaky_relu.default: (0.2,),
    aten.elu.default: (0.7,),
    aten.hardswish.default: (),
    aten.silu.default: (),
    aten.gelu.default: (),
}.items():
    call(op, (2, 3, 5, 4), args=args)
    call(op, (7,), args=args)
    in_place = getattr(aten, f"{op._schema.name.removeprefix('aten::')}_").default
    call(in_place, (3, 5), args=args)
call(aten.gelu.default, (3, 9), approximate="tanh")
call(aten.clamp.default, (3, 9), args=(-1, 1))

# Pooling and reductions.

pool = aten.max_pool2d.default
call(pool, (2, 3, 9, 7), args=(2,))
call(pool, (1, 17, 8, 9), args=((3, 2), (2, 1), (1, 1)))
call(pool, (1, 5, 11, 10), args=(3, 2, 1, 1, True))
call(pool, (1, 2, 13, 12), args=(3, 3, 1, (2, 3), True))
call(pool, (1, 1, 1, 1), args=(3, 1, 1))

pool = aten.avg_pool2d.default
call(pool, (2, 3, 9, 7), args=(2,), lsb=1)
call(pool, (1, 17, 8, 9), args=((3, 2), (2, 1), (1, 1)), lsb=1)
for ceil_mode in (False, True):
    for count_include_pad in (False, True):
        call(pool, (1, 5, 10, 11), args=(4, 3, 2, ceil_mode, count_include_pad), lsb=1)
call(pool, (1, 3, 6, 7), args=(3, 2, 1, True, True, 5), lsb=1)

pool = aten.adaptive_avg_pool2d.default
call(pool, (2, 3, 9, 7), args=((1, 1),), lsb=1)
call(pool, (1, 17, 9, 7), args=((4, 5),), lsb=1)
call(pool, (1, 3, 2, 3), args=((5, 7),), lsb=1)
layer(pool, nn.AdaptiveAvgPool2d((None, 3)), (1, 4, 6, 8))

call(aten.mean.default, (3, 5, 7), lsb=1)
call(aten.mean.dim, (2, 3, 5, 4), args=((2, 3),), lsb=1)
call(aten.mean.dim, (2, 3, 5, 4), args=((-1, -2), True), lsb=1)
call(aten.mean.dim, (2, 3, 5, 4), args=((1,),), lsb=1)
call(aten.mean.dim, (2, 3, 5, 4), args=((0, 2), True), lsb=1)
call(aten.mean.dim, (3, 5), args=(None,), lsb=1)
call(aten.mean.dim, (3, 1, 5), args=((1,),), lsb=1)

call(aten.softmax.int, (2, 3, 5, 4), args=(1,), lsb=1)
call(aten.softmax.int, (2, 17), args=(-1,), lsb=1)
call(aten.softmax.int, (3, 1), args=(1,), lsb=1)
call(aten._softmax.default, (3, 11, 2), args=(0, False), lsb=1)

# Batch normalization of its own.


def _statistics(norm: nn.Module) -> nn.Module:
    torch.manual_seed(5)
    for name, tensor in norm.state_dict().items():
        if tensor.is_floating_point():
            tensor.uniform_(0.5, 2.0) if "var" in name else tensor.normal_()
    return norm


norm = aten.batch_norm.default
layer(norm, _statistics(nn.BatchNorm2d(3)), (2, 3, 5, 4))
layer(norm, _statistics(nn.BatchNorm1d(7, affine=False)), (3, 7))
layer(norm, _statistics(nn.BatchNorm1d(4)), (2, 4, 5))
layer(norm, nn.Sequential(_statistics(nn.BatchNorm2d(6)), nn.ReLU()), (1, 6, 3, 3))

# Matrix products.

call(aten.matmul.default, (3, 5), (5, 7), lsb=1)
call(aten.matmul.default, (2, 3, 5, 4), (4, 6), lsb=1)
call(aten.matmul.default, (2, 1, 5, 4), (3, 4, 6), lsb=1)
call(aten.matmul.default, (1, 1), (1, 1), lsb=1)
call(aten.bmm.default, (3, 2, 33), (3, 33, 17), lsb=1)
call(aten.mm.default, (5, 65), (65, 3), lsb=1)

# Joining, cutting, padding.

for op in (aten.cat.default, aten.concat.default, aten.concatenate.default):
    call(op, (2, 3, 5, 4), (2, 1, 5, 4), args=(1,), listed=True)
    call(op, (2, 3), (5, 3), (1, 3), listed=True)
    call(op, (2, 3, 5, 4), (2, 3, 5, 2), args=(-1,), listed=True)
call(aten.stack.default, (2, 3, 5), (2, 3, 5), (2, 3, 5), args=(-1,), listed=True)
call(aten.stack.default, (2, 3, 5, 4), (2, 3, 5, 4), args=(1,), listed=True)

cut = aten.slice.Tensor
call(cut, (2, 7, 5, 4), args=(1, 1, 6, 2))
call(cut, (2, 7, 5, 4), args=(-2, -4, None))
call(cut, (9,), args=(0, None, 100, 3))
call(aten.narrow.default, (2, 7, 5, 4), args=(1, -5, 3))
call(aten.select.int, (2, 7, 5, 4), args=(1, 3))
call(aten.select.int, (2, 7, 5, 4), args=(-1, -4))
call(aten.select.int, (5,), args=(0, 2))

call(aten.constant_pad_nd.default, (2, 3, 5, 4), args=((1, 2, 0, 3), 1.5))
call(aten.constant_pad_nd.default, (2, 3, 5, 4), args=((-1, 2, 3, -2, 0, 1, 1, 0), -0.25))
call(aten.pad.default, (2, 3, 5, 4), args=((1, 1, 1, 1),))
call(aten.pad.default, (3, 7), args=((2, 0), "constant", 1e6))

# Other shapes and orders of the same values.

call(aten.view.default, (2, 3, 4), args=((6, 4),))
call(aten.view.default, (2, 6, 4, 5), args=((2, 2, 3, -1),))
call(aten._unsafe_view.default, (2, 3, 4), args=((2, 12),))
call(aten.reshape.default, (2, 3, 5, 4), args=((5, 24),))
call(aten.view_as.default, (2, 3, 4), (4, 6))
call(aten.reshape_as.default, (2, 3, 4), (4, 6))
call(aten.flatten.using_ints, (2, 3, 5, 4), args=(1,))
call(aten.flatten.using_ints, (2, 17, 1, 1), args=(1,))
call(aten.flatten.using_ints, (2, 3, 5, 4), args=(2, 3))
call(aten.unflatten.int, (2, 12, 5), args=(1, (3, 4)))
call(aten.squeeze.default, (1, 3, 1, 4))
call(aten.squeeze.dim, (2, 3, 1, 4), args=(2,))
call(aten.squeeze.dims, (1, 3, 1, 4), args=((0, 2),))
call(aten.unsqueeze.default, (3, 5), args=(-1,))
call(aten.unsqueeze.default, (2, 3, 5, 4), args=(2,))

call(aten.permute.default, (2, 3, 5, 4), args=((3, 1, 0, -2),))
call(aten.transpose.int, (2, 3, 5, 4), args=(-1, 1))
call(aten.t.default, (3, 5))
call(aten.numpy_T.default, (3, 5))
call(aten.mT.default, (2, 3, 5))
call(aten.swapaxes.default, (2, 3, 5), args=(0, 2))
call(aten.swapdims.default, (2, 3, 5), args=(0, 2))
call(aten.movedim.int, (2, 3, 5, 4), args=(1, 3))
call(aten.movedim.intlist, (2, 3, 5, 4), args=((0, 1), (2, 0)))

# Calls that change nothing.

for packet in (
    aten.dropout,
    aten.dropout_,
    aten.feature_dropout,
    aten.feature_dropout_,
    aten.alpha_dropout,
    aten.alpha_dropout_,
    aten.feature_alpha_dropout,
    aten.feature_alpha_dropout_,
):
    call(packet.default, (2, 3, 5, 4), args=(0.5, False))
for packet in (aten.clone, aten.alias, aten.detach, aten.lift_fresh_copy):
    call(packet.default, (2, 3, 5, 4))
call(aten.contiguous.default, (2, 3, 5, 4), memory_format=torch.channels_last)
call(aten.to.dtype, (2, 3, 5, 4), args=(torch.float32,))
call(aten.to.dtype_layout, (2, 3, 5, 4), dtype=torch.float32)
call(aten.to.device, (2, 3, 5, 4), args=(torch.device("cpu"), torch.float32))
call(aten.to.other, (2, 3, 5, 4), (2, 3))
call(aten.type_as.default, (2, 3, 5, 4), (7,))
call(aten._to_copy.default, (2, 3, 5, 4), memory_format=torch.channels_last)
