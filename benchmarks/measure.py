"""Times that can be compared: subjects take turns, and medians count."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

Times = list[list[float]]  # milliseconds, by round and run


@dataclass(frozen=True)
class Blocks:
    """A round gives every subject one block: `warmup` runs that do not count, then `runs`."""

    rounds: int = 20
    warmup: int = 5
    runs: int = 10
    pause: float = 0.02  # seconds before a block: until the threads of the one before sleep


def alternate(
    subjects: Mapping[str, Callable[[], object]],
    blocks: Blocks,
    advance: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Times]:
    """The subjects' times, measured block by block in one stretch.

    Whatever changes while it lasts (frequency, neighbours) meets all alike. Every other round goes
    backwards: what changes steadily then cancels out. `advance` is called after every block.
    """
    times: dict[str, Times] = {name: [] for name in subjects}
    for number in range(blocks.rounds):
        for name in list(subjects)[:: 1 if number % 2 == 0 else -1]:
            time.sleep(blocks.pause)
            run = subjects[name]
            for _ in range(blocks.warmup):
                run()
            block = []
            for _ in range(blocks.runs):
                start = clock()
                run()
                block.append((clock() - start) * 1e3)
            times[name].append(block)
            advance()
    return times


@dataclass(frozen=True)
class Summary:
    """Of a sample: its median, the quartiles around it, and its minimum."""

    median: float
    low: float
    high: float
    minimum: float

    def json(self) -> dict[str, float]:
        return {name: round(value, 5) for name, value in asdict(self).items()}


def summarize(sample: Sequence[float]) -> Summary:
    """Of at least one value."""
    several = sample if len(sample) > 1 else [*sample, *sample]
    low, median, high = statistics.quantiles(several, n=4, method="inclusive")
    return Summary(median, low, high, min(sample))


def summarize_times(times: Times) -> Summary:
    """Over all runs of all rounds."""
    return summarize([t for block in times for t in block])


def ratio(peer: Times, own: Times) -> Summary:
    """How many times as long the peer takes.

    The median is that of the medians over all runs. Quartiles and minimum are those of the rounds,
    each with the ratio of its two blocks: how far the figure can be trusted.
    """
    rounds = [statistics.median(p) / statistics.median(o) for p, o in zip(peer, own, strict=True)]
    spread = summarize(rounds)
    median = summarize_times(peer).median / summarize_times(own).median
    return Summary(median, spread.low, spread.high, spread.minimum)
