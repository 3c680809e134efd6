"""Writes docs/op-support.md from the op table: python -m docs.generate_op_support

What an op refuses is read from the source of its checks, so that the page has the very words a
report gives as reasons.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from executorch_vpu import VPU_OPS
from executorch_vpu.backend.arguments import MAX_RANK
from executorch_vpu.backend.table import Link, OutputRange, VpuOp

PAGE = Path(__file__).with_name("op-support.md")

HEADER = """\
# Operator support

<!-- Generated from the op table by docs/generate_op_support.py; `make docs` writes it again. -->

{count} ATen overloads in {families} families. All compute int8 to int8; what each may be fused with
runs in the same unit, in high precision ([quantization](quantization.md)).

These conditions hold for every op; an op that does not meet them runs on the CPU, and
[the report](partitioner.md#the-report) says which it was:

- inputs and output are float32 in the float model, and quantized to int8 `[-128, 127]` per tensor;
- shapes are static, not empty, of at most {rank} dimensions;
- weights are constants, quantized to int8 `[-127, 127]`, symmetric, per output channel or per
  tensor; biases are constants, kept in float;
- the int32 accumulator cannot overflow, whatever the input: this is proven from the weights.

The last column has each family's own reasons for refusing a call, as the report words them; `…` is
the call's value.

| family | ATen overloads | output's range | fused behind it | refused if |
|---|---|---|---|---|
"""


def page() -> str:
    """The page's text."""
    families = VPU_OPS.families()
    rows = [
        [
            op.name,
            ", ".join(f"`{str(target).removeprefix('aten.')}`" for target in op.targets),
            _range(op),
            _fused(op),
            "<br>".join(reasons(op)).replace("|", "\\|"),
        ]
        for op in sorted(families, key=lambda op: op.name)
    ]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return HEADER.format(count=len(VPU_OPS), families=len(families), rank=MAX_RANK) + table


def _range(op: VpuOp) -> str:
    if op.output_range is OutputRange.FIXED:
        assert op.fixed is not None
        return f"scale 1/{round(1 / op.fixed.scale)}, zero point {op.fixed.zero_point}"
    return "its own" if op.output_range is OutputRange.OWN else "its input's"


def _fused(op: VpuOp) -> str:
    """The links a user sees: batch norms are folded by torchao before."""
    return ", ".join(_link_name(link) for link in op.links if link is not Link.BATCH_NORM)


def _link_name(link: Link) -> str:
    return " or ".join(op.name for op in VPU_OPS.families() if op.link is link)


def reasons(op: VpuOp) -> list[str]:
    """What op.check and op.check_unit may answer, in source order."""
    found: dict[str, None] = {}
    for method in (type(op).check, type(op).check_unit):
        found.update(dict.fromkeys(_answers(method)))
    return list(found)


def _answers(function: Callable[..., Any]) -> Iterator[str]:
    """The strings a function of the package can return, helpers it calls included."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    places = [node for node in ast.walk(tree) if isinstance(node, (ast.Return, ast.Call))]
    for node in sorted(places, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(node, ast.Return) and node.value is not None:
            branches = [node.value]
            if isinstance(node.value, ast.IfExp):
                branches = [node.value.body, node.value.orelse]
            for branch in branches:
                if (text := _text(branch, function.__globals__)) is not None:
                    yield text
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            helper = function.__globals__.get(node.func.id)
            if inspect.isfunction(helper) and helper.__annotations__.get("return") == "str | None":
                yield from _answers(helper)


def _text(node: ast.expr, names: dict[str, Any]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        else:  # a limit, or a value of the call
            assert isinstance(part, ast.FormattedValue)
            name = part.value.id if isinstance(part.value, ast.Name) else ""
            parts.append(str(names[name]) if name.isupper() else "…")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
