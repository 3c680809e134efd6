"""Arbitrary attributes and shapes: units within 1 LSB of the Q/DQ graph, interpreter bit-exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from executorch_vpu.backend.arguments import MAX_RANK
from executorch_vpu.partitioner.plan import make_plan

from ..support.bits import assert_same_bits
from ..support.handmade import Function, Weighted, exported
from ..support.pipeline import lower_whole, worst_unit_error

Draw = Callable[..., Any]

few = settings(
    max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
sizes = st.integers(1, 9)
zooms = st.sampled_from([0.3, 1.0, 2.5])  # a range too wide, exact, too narrow


def check(
    functions: Sequence[Function], inputs: Sequence[Tensor], lsb: int, zoom: float = 1.0
) -> None:
    program = exported(functions, tuple(inputs), zoom)
    # Weights near zero beside a bias: refused in words, which test_refusals.py is about.
    assume(not any("int32 bias" in reason for reason in make_plan(program).reasons.values()))
    error, where = worst_unit_error(program, tuple(inputs))
    assert error <= lsb, where
    assert_same_bits(lower_whole(program)[0], [x.numpy() for x in inputs], threads=(1, 3))


def tensor(draw: Draw, shape: Sequence[int]) -> Tensor:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    x = torch.randn(list(shape), generator=generator) * draw(st.sampled_from([0.1, 3.0]))
    last = x.ndim == 4 and draw(st.booleans())
    return x.to(memory_format=torch.channels_last) if last else x


@given(st.data(), zooms)
@few
def test_conv2d(data: st.DataObject, zoom: float) -> None:
    draw = data.draw
    pair = lambda low, high: (draw(st.integers(low, high)), draw(st.integers(low, high)))  # noqa: E731
    groups = draw(st.sampled_from([1, 1, 2, 5]))
    depthwise = draw(st.booleans())
    per_group = 1 if depthwise else draw(st.integers(1, 7))
    outputs = draw(st.integers(1, 6)) * groups
    kernel, dilation = pair(1, 4), pair(1, 3)
    padding: Any
    if draw(st.booleans()):
        stride, padding = (1, 1), draw(st.sampled_from(["same", "valid"]))
    else:
        stride, padding = pair(1, 3), pair(0, 3)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    image = [draw(st.integers(r, r + 8)) for r in reach]
    x = tensor(draw, (draw(st.integers(1, 2)), per_group * groups, *image))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    weight = torch.randint(
        -127, 128, (outputs, per_group, *kernel), generator=generator, dtype=torch.int8
    )
    scales = torch.rand(outputs, generator=generator) * 0.01 + 1e-4
    bias = torch.randn(outputs, generator=generator) if draw(st.booleans()) else None

    def conv(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        y = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
        return F.relu(y) if activated else y

    activated = draw(st.booleans())
    check([Weighted(conv, weight, scales, bias)], [x], 1, zoom)


@given(st.data(), st.booleans(), zooms)
@few
def test_max_pool2d(data: st.DataObject, ceil_mode: bool, zoom: float) -> None:
    kernel, stride, padding, dilation, x = _pooling(data, dilated=True)

    def pool(x: Tensor) -> Tensor:
        return F.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode)

    assume(pool(x).isfinite().all())
    check([pool], [x], 0, zoom)


@given(st.data(), st.booleans(), st.booleans(), zooms)
@few
def test_avg_pool2d(
    data: st.DataObject, ceil_mode: bool, count_include_pad: bool, zoom: float
) -> None:
    kernel, stride, padding, _, x = _pooling(data, dilated=False)
    divisor = data.draw(st.sampled_from([None, None, 7]))

    def pool(x: Tensor) -> Tensor:
        return F.avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)

    check([pool], [x], 1, zoom)


@given(st.data(), sizes, sizes, zooms)
@few
def test_adaptive_avg_pool2d(data: st.DataObject, rows: int, columns: int, zoom: float) -> None:
    x = tensor(data.draw, [data.draw(sizes) for _ in range(4)])
    check([lambda x: F.adaptive_avg_pool2d(x, (rows, columns))], [x], 1, zoom)


@given(st.data(), zooms)
@few
def test_concatenation(data: st.DataObject, zoom: float) -> None:
    draw = data.draw
    shape = draw(st.lists(sizes, min_size=1, max_size=4))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        shape[dim] = draw(sizes)
        parts.append(tensor(draw, shape))
    # Through a permute some parts may be stored in another order than others.
    check([lambda *xs: torch.cat(xs, dim), torch.relu], parts, 0, zoom)


@given(st.data(), zooms)
@few
def test_slicing(data: st.DataObject, zoom: float) -> None:
    draw = data.draw
    shape = draw(st.lists(sizes, min_size=1, max_size=4))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    bound = st.none() | st.integers(-12, 12)
    start, end, step = draw(bound), draw(bound), draw(st.integers(1, 4))
    assume(len(range(shape[dim])[slice(start, end, step)]) > 0)
    cut = torch.ops.aten.slice.Tensor
    check([lambda x: cut(x, dim, start, end, step), torch.tanh], [tensor(draw, shape)], 0, zoom)


@given(st.data(), st.floats(-5, 5), zooms)
@few
def test_padding_and_cropping(data: st.DataObject, value: float, zoom: float) -> None:
    draw = data.draw
    shape = draw(st.lists(st.integers(5, 8), min_size=1, max_size=4))
    cells = draw(st.lists(st.integers(-2, 4), min_size=2, max_size=2 * len(shape)))
    padding = cells[: len(cells) // 2 * 2]
    functions = [lambda x: F.pad(x, padding, value=value), torch.relu]
    check(functions, [tensor(draw, shape)], 0, zoom)


@given(st.data(), st.sampled_from([torch.add, torch.sub, torch.mul]), zooms)
@few
def test_broadcasting(data: st.DataObject, function: Any, zoom: float) -> None:
    draw = data.draw
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))

    def operand() -> Tensor:
        kept = [size if draw(st.booleans()) else 1 for size in shape]
        return tensor(draw, kept[draw(st.integers(0, len(kept))) :])

    check([function], [operand(), operand()], 1, zoom)


@given(st.data(), zooms)
@few
def test_moving_dimensions_through_layouts(data: st.DataObject, zoom: float) -> None:
    """Permutes and reshapes in a row, each on whatever layout the one before has left."""
    draw = data.draw
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    x = tensor(draw, shape)
    functions: list[Function] = []
    for _ in range(draw(st.integers(1, 3))):
        permuted = draw(st.permutations(range(len(shape))))
        functions.append(lambda x, permuted=permuted: x.permute(permuted))
        shape = _refactored(draw, [shape[d] for d in permuted])
        functions.append(lambda x, shape=tuple(shape): x.reshape(shape))
        assume(len(shape) <= MAX_RANK)
    check([*functions, torch.tanh], [x], 0, zoom)


@given(st.data(), zooms)
@few
def test_mean(data: st.DataObject, zoom: float) -> None:
    draw = data.draw
    shape = draw(st.lists(sizes, min_size=1, max_size=4))
    dims = draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    keepdim = draw(st.booleans())
    check([lambda x: x.mean(dims, keepdim)], [tensor(draw, shape)], 1, zoom)


def _pooling(data: st.DataObject, dilated: bool) -> tuple[Any, Any, Any, Any, Tensor]:
    draw = data.draw
    pair = lambda low, high: [draw(st.integers(low, high)) for _ in range(2)]  # noqa: E731
    kernel, stride = pair(1, 4), pair(1, 3)
    dilation = pair(1, 3) if dilated else [1, 1]
    padding = [draw(st.integers(0, k // 2)) for k in kernel]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    image = [draw(st.integers(r, r + 8)) for r in reach]
    x = tensor(draw, (draw(st.integers(1, 2)), draw(st.integers(1, 20)), *image))
    return kernel, stride, padding, dilation, x


def _refactored(draw: Draw, shape: list[int]) -> list[int]:
    """Another shape of as many elements: dimensions merged, split, ones put in or taken out."""
    start = draw(st.integers(0, len(shape)))
    end = draw(st.integers(start, len(shape)))
    merged = 1
    for size in shape[start:end]:
        merged *= size
    divisors = [d for d in range(1, merged + 1) if merged % d == 0]
    first = draw(st.sampled_from(divisors))
    middle = draw(st.sampled_from([[merged], [first, merged // first]]))
    ones = [1] * draw(st.integers(0, 1))
    return [*shape[:start], *middle, *ones, *shape[end:]]
