"""How fast the CPU can multiply at all: an instruction set's multiply instruction, on registers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from executorch_vpu.backend.interpreter import isa_peak

_TRIES = 20
_SECONDS = 0.01  # each


def peak_gmacs(threads: int, isa: str | None = None) -> float | None:
    """10^9 multiply-accumulates per second of so many threads at once: the best of several tries.

    None if the set, as for VpuInterpreter, does not tell.
    """
    macs, nanoseconds = isa_peak(isa, 1000)
    if macs == 0:
        return None
    iterations = max(1000, round(1000 * _SECONDS * 1e9 / max(nanoseconds, 1)))
    with ThreadPoolExecutor(threads) as pool:  # ctypes lets go of Python's lock
        return max(_together(pool, isa, iterations, threads) for _ in range(_TRIES))


def _together(pool: ThreadPoolExecutor, isa: str | None, iterations: int, threads: int) -> float:
    done = list(pool.map(isa_peak, [isa] * threads, [iterations] * threads))
    return sum(macs for macs, _ in done) / max(nanoseconds for _, nanoseconds in done)
