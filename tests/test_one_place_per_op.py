"""An op lives in one file of backend/ops/, one of kernels/ops/ and one schema entry; nothing else
lists ops by hand."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from executorch_vpu import VPU_OPS
from executorch_vpu.backend.program import Instruction
from executorch_vpu.schema import vpu_generated as fbs

ROOT = Path(__file__).resolve().parents[1]
OPS = ROOT / "backend" / "ops"
KERNELS = ROOT / "kernels" / "ops"
INSTRUCTIONS = sorted(
    name for name, cls in Instruction.classes.items() if cls.__module__.startswith("executorch_vpu")
)
# Lists that are somebody else's facts, not ours.
ALLOWED = {"quantizer/training.py": "the layers that torchao folds a batch norm into"}
OP_NAMES = {op._schema.name.removeprefix("aten::") for op in VPU_OPS}


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_has_one_python_file_and_one_kernel_file(name: str) -> None:
    source = inspect.getsourcefile(Instruction.classes[name])
    assert source is not None
    assert Path(source).resolve() == OPS / f"{snake_case(name)}.py"
    assert (KERNELS / f"{snake_case(name)}.cpp").is_file()


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_has_the_fields_and_defaults_of_its_table(name: str) -> None:
    table = vars(getattr(fbs, f"{name}T")())
    fields = {_camel_case(f.name): f for f in dataclasses.fields(Instruction.classes[name])}
    assert list(fields) == list(table)
    for attribute, field in fields.items():
        if field.default is not dataclasses.MISSING:
            assert table[attribute] == field.default, attribute


def test_the_union_of_the_schema_is_the_instructions() -> None:
    members = {name for name in vars(fbs.Op) if not name.startswith("_")} - {"NONE"}
    assert members == set(INSTRUCTIONS)


def test_every_kernel_file_is_an_instruction() -> None:
    kernels = {path.stem for path in KERNELS.glob("*.cpp")}
    assert kernels == {snake_case(name) for name in INSTRUCTIONS}


def test_every_family_is_declared_beside_its_instruction() -> None:
    for family in VPU_OPS.families():
        source = inspect.getsourcefile(type(family))
        assert source is not None and Path(source).resolve().parent == OPS, family.name


def _python_sources() -> Iterator[Path]:
    for directory in ("backend", "partitioner", "quantizer", "docs", "tests/ops", "tests/support"):
        for path in (ROOT / directory).rglob("*.py"):
            if OPS in path.parents or path == ROOT / "tests" / "ops" / "samples.py":
                continue
            if str(path.relative_to(ROOT)) not in ALLOWED:
                yield path


@pytest.mark.parametrize("path", list(_python_sources()), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_other_python_file_lists_ops(path: Path) -> None:
    """One op may be named where it is a case of its own; two in one place are a list."""
    for line, names in _names_by_place(ast.parse(path.read_text())):
        assert len(names) < 2, f"{path.relative_to(ROOT)}:{line} names {sorted(names)}"


def test_no_other_native_file_lists_ops() -> None:
    # The schema's names of an instruction in C++, and a kernel's file in a build script.
    members = "|".join(INSTRUCTIONS)
    files = "|".join(map(snake_case, INSTRUCTIONS))
    pattern = re.compile(rf"\b(?:Op_|op_as_|as_|schema::)(?:{members})\b|\b(?:{files})\.cpp\b")
    sources = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").rglob("*")]
    sources += (p for p in (ROOT / "kernels").rglob("*") if KERNELS not in p.parents)
    texts = {path: path.read_text() for path in sources if path.is_file()}
    found = {path.name: pattern.findall(text) for path, text in texts.items()}
    assert {name: matches for name, matches in found.items() if matches} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("OPS = [torch.ops.aten.conv2d.default, aten.relu.default]", {"conv2d", "relu"}),
        (
            "def f(n):\n  if n == aten.add.Tensor: pass\n  return n is aten.mul.Tensor",
            {"add", "mul"},
        ),
        ("x = {'aten::add': 1, 'aten.mul.Tensor': 2}", {"add", "mul"}),
        ("kinds = (Conv2d, Linear)", {"Conv2d", "Linear"}),
        ("from ops import Conv2d, Linear", set()),
        ("x = aten.conv2d.default\ny = aten.relu.default", {"conv2d"}),
    ],
)
def test_the_check_sees_lists(source: str, names: set[str]) -> None:
    places = [found for _, found in _names_by_place(ast.parse(source))]
    assert max(places, key=len, default=set()) == names


def _names_by_place(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """(line, ops and instructions named) for every function and every other statement."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _names_by_place(node)
        elif isinstance(node, ast.stmt) and not isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node.lineno, {name for part in ast.walk(node) for name in _names(part)}


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and node.id in INSTRUCTIONS:
        yield node.id
    elif isinstance(node, ast.Attribute):
        owner = node.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", None)
        if name == "aten" and node.attr in OP_NAMES:
            yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from (n for n in re.findall(r"\baten(?:::|\.)(\w+)", node.value) if n in OP_NAMES)


def _camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
