"""What a benchmark ran on, for its results."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from executorch_vpu.backend.interpreter import available_isas

_FEATURES = re.compile(r"avx2|avx_vnni|avx512f|avx512_vnni|amx_(int8|bf16)|asimddp|i8mm|sve")


def describe(packages: Iterable[str]) -> dict[str, Any]:
    """CPU, features that matter to int8 kernels, and the versions of packages."""
    info = _cpu_info()
    features = info.get("flags", info.get("Features", "")).split()
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "cpu": info.get("model name", platform.machine()),
        "cpus": cpu_count(),
        "cpu_features": sorted(f for f in features if _FEATURES.fullmatch(f)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in sorted(set(packages))},
        "vpu_isa": chosen_isa(),
    }


def text(machine: dict[str, Any]) -> str:
    """The same for people."""
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs ({' '.join(machine['cpu_features'])})\n"
        f"{machine['system']}, Python {machine['python']}\n"
        f"{packages}\n"
        f"VPU instruction set: {machine['vpu_isa']}"
    )


def cpu_count() -> int:
    """The CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def chosen_isa() -> str:
    """The instruction set the VPU uses in this environment.

    Raises:
        ValueError: VPU_ISA names one that cannot be used here.
    """
    isas = available_isas()
    usable = [isa.name for isa in isas if isa.available]
    name = os.environ.get("VPU_ISA") or usable[-1]
    if name not in usable:
        reasons = {isa.name: isa.reason for isa in isas}
        reason = reasons.get(name, "there is no such set")
        raise ValueError(f"VPU_ISA is {name}: {reason}; available here: {', '.join(usable)}")
    return name


def _cpu_info() -> dict[str, str]:
    """The first processor of /proc/cpuinfo."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}
