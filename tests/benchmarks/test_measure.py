"""Turns, medians and ratios, with a clock that runs as the test says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.measure import Blocks, Summary, alternate, ratio, summarize


class Clock:
    """Stands still, but for what subjects take."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.seconds

    def subject(self, name: str, seconds: Callable[[], float]) -> Callable[[], None]:
        def run() -> None:
            self.calls.append(name)
            self.seconds += seconds()

        return run


def test_blocks_alternate_and_every_other_round_goes_backwards() -> None:
    clock = Clock()
    subjects = {name: clock.subject(name, lambda: 1.0) for name in "abc"}
    alternate(subjects, Blocks(rounds=2, warmup=1, runs=2, pause=0), clock=clock)
    assert "".join(clock.calls) == "aaabbbccc" + "cccbbbaaa"


def test_warm_up_runs_do_not_count() -> None:
    clock = Clock()
    seconds = iter([100.0, 1.0, 2.0, 100.0, 3.0, 4.0])
    subject = {"a": clock.subject("a", lambda: next(seconds))}
    times = alternate(subject, Blocks(rounds=2, warmup=1, runs=2, pause=0), clock=clock)
    assert times == {"a": [[1e3, 2e3], [3e3, 4e3]]}


def test_progress_is_told_of_every_block() -> None:
    told: list[None] = []
    subjects: dict[str, Callable[[], object]] = {"a": int, "b": int}
    alternate(subjects, Blocks(3, 1, 1, pause=0), advance=lambda: told.append(None))
    assert len(told) == 6


def test_drift_does_not_change_the_ratio() -> None:
    clock = Clock()

    def drifting(factor: float) -> Callable[[], float]:
        return lambda: factor * (1 + 1e-3 * len(clock.calls))

    subjects = {
        "own": clock.subject("own", drifting(1)),
        "peer": clock.subject("peer", drifting(3)),
    }
    times = alternate(subjects, Blocks(rounds=20, warmup=1, runs=5, pause=0), clock=clock)
    assert ratio(times["peer"], times["own"]).median == pytest.approx(3, rel=5e-3)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ([7.0], Summary(7, 7, 7, 7)),
        ([1.0, 2.0, 3.0, 4.0, 100.0], Summary(3, 2, 4, 1)),
        ([4.0, 2.0], Summary(3, 2.5, 3.5, 2)),
    ],
)
def test_summary(sample: list[float], expected: Summary) -> None:
    assert summarize(sample) == expected


def test_ratio_is_that_of_the_medians_with_the_spread_of_the_rounds() -> None:
    found = ratio(peer=[[4.0, 4.0], [9.0, 9.0]], own=[[2.0, 2.0], [3.0, 3.0]])
    assert found == Summary(median=6.5 / 2.5, low=2.25, high=2.75, minimum=2)
