"""C++ programs outside this project, built against what is installed: examples/embed, others."""

from __future__ import annotations

import os
import runpy
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.runtime import Runtime

import executorch_vpu.runtime  # noqa: F401  registers VpuBackend
from executorch_vpu.cmake import prefix_path

from ..support.builds import PATH, needs_tools

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = needs_tools("c++")


def cmake(*arguments: object, fails: bool = False) -> str:
    """What it prints; on failure, what it says on the standard error, in one line."""
    done = subprocess.run(
        ["cmake", *map(str, arguments)],
        env={**os.environ, "PATH": PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return " ".join(done.stderr.split()) if fails else done.stdout


def build(source: Path, directory: Path, *options: str) -> None:
    prefix = f"-DCMAKE_PREFIX_PATH={prefix_path()}"
    cmake("-G", "Ninja", "-S", source, "-B", directory, prefix, *options)
    cmake("--build", directory)


def test_the_example_runs_what_the_quick_start_lowers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    quantized = runpy.run_path(str(EXAMPLES / "quickstart.py"))["quantized"]
    # A linker that leaves out what nothing calls, as some do of themselves.
    flags = "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed"
    build(EXAMPLES / "embed", tmp_path / "build", flags)
    done = subprocess.run(
        [tmp_path / "build" / "embed", "model.pte"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = np.array(done.stdout.split(), np.float32)

    ones = torch.ones(1, 3, 32, 32)
    graph = quantized(ones).detach().numpy()[0]
    quantize = "quantized_decomposed.quantize_per_tensor"
    scales = [n.args[1] for n in quantized.graph.nodes if str(n.target).startswith(quantize)]
    step = scales[-1]  # of the output
    assert printed.shape == (10,) and np.ptp(printed) > 0
    np.testing.assert_allclose(printed, graph, rtol=0, atol=step * 1.01)
    method = Runtime.get().load_program("model.pte").load_method("forward")
    np.testing.assert_array_equal(printed, method.execute((ones,))[0].numpy()[0])


def project(directory: Path, *lines: str) -> Path:
    """A project with this CMakeLists.txt."""
    directory.mkdir()
    text = "\n".join(("cmake_minimum_required(VERSION 3.20)", *lines, ""))
    (directory / "CMakeLists.txt").write_text(text, encoding="utf-8")
    return directory


def test_the_interpreter_without_executorch(tmp_path: Path) -> None:
    source = project(
        tmp_path / "source",
        "project(plain LANGUAGES CXX)",
        "set(CMAKE_VERSION 3.27.9)  # the interpreter needs no newer one",
        "find_package(executorch_vpu 0.1 REQUIRED COMPONENTS interpreter)",
        "add_executable(plain main.cpp)",
        "target_link_libraries(plain PRIVATE executorch_vpu::interpreter)",
    )
    (source / "main.cpp").write_text(
        "#include <vpu/vpu.h>\n#include <cstdio>\nint main() { std::puts(vpu_version()); }\n",
        encoding="utf-8",
    )
    build(source, tmp_path / "build")
    plain = tmp_path / "build" / "plain"
    assert subprocess.run([plain], capture_output=True, check=True).stdout == b"0.1.0\n"
    assert b"libexecutorch" not in plain.read_bytes()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ("set(CMAKE_VERSION 3.27.9)", "find_package(executorch_vpu REQUIRED)"),
            "needs CMake 3.28 or newer, as ExecuTorch's own targets do. This is CMake 3.27.9. "
            "Run: pip install 'cmake>=3.28'",
        ),
        (
            ("find_package(executorch_vpu REQUIRED COMPONENTS runtime)",),
            "no component 'runtime' of executorch_vpu, only: delegate, interpreter",
        ),
        (
            (
                "set(CMAKE_DISABLE_FIND_PACKAGE_executorch TRUE)",
                "find_package(executorch_vpu REQUIRED)",
            ),
            "needs the wheel of ExecuTorch 1.5.1, which is not beside",
        ),
        (("find_package(executorch_vpu 0.2 REQUIRED)",), "version: 0.1.0"),
    ],
    ids=["old CMake", "component", "no ExecuTorch", "version"],
)
def test_what_is_missing_is_said_in_words(
    tmp_path: Path, lines: tuple[str, ...], words: str
) -> None:
    source = project(tmp_path / "source", "project(missing LANGUAGES NONE)", *lines)
    prefix = f"-DCMAKE_PREFIX_PATH={prefix_path()}"
    assert words in cmake("-S", source, "-B", tmp_path / "build", prefix, fails=True)
