"""Hands figures that were measured elsewhere to pytest-benchmark: its tables, JSON and comparisons work as usual.

pytest-benchmark times a function call in its own process, one test after the other. Ours are alternated, measured in
processes of their own and filtered by the probe, so a test replays the accepted figures on a clock that jumps by each.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from .rounds import Comparison

_now_s = 0.0


def recorded_clock() -> float:
    """The timer of every test that replays: ``pytest.mark.benchmark(timer=recorded_clock)``."""
    return _now_s


def replay(benchmark: BenchmarkFixture, group: str, seconds: Sequence[float]) -> None:
    """One round per figure."""
    remaining = iter(seconds)

    def jump() -> None:
        global _now_s
        _now_s += next(remaining)

    benchmark.group = group
    benchmark.pedantic(jump, rounds=len(seconds))


def replay_peer(benchmark: BenchmarkFixture, comparison: Comparison, name: str) -> None:
    """The accepted figures of one peer; skips with the reason when there are none."""
    if missing := comparison.missing.get(name):
        pytest.skip(f"{name}: {missing.summary}")
    if not (seconds := comparison.seconds(name)):
        pytest.skip(f"{name}: all {len(comparison.rounds)} rounds flagged")
    benchmark.extra_info["flagged_rounds"] = comparison.flagged
    replay(benchmark, comparison.title, seconds)
