"""How fast workers come up, what memory each owns, how fast a killed one is back; compared with cold interpreters."""

from __future__ import annotations

import math
from functools import partial

import pytest

from .goals import READY, RESTART, UNIQUE_MEMORY
from .launch import call
from .probe import Probe
from .replay import recorded_clock, replay_peer
from .report import Report
from .rounds import Comparison, Measure, bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800), pytest.mark.benchmark(timer=recorded_clock)]

NUM_WORKERS = 8
COLD, READY_OURS, RESTART_OURS = "cold interpreters (import included)", "ours", "ours, restart of one worker"
UNIQUE: dict[str, list[int]] = {}
"""Bytes per worker, by peer, over all rounds; memory has no slow regime."""


def remember(name: str, module: str) -> Measure:
    def measure() -> float:
        figures = call(module, "start", num_workers=NUM_WORKERS)
        UNIQUE.setdefault(name, []).extend(figures["unique_bytes"])
        return figures["ready_s"]

    return measure


PEERS: dict[str, Measure] = {
    COLD: remember(COLD, "peers.cold_start"),
    READY_OURS: remember(READY_OURS, "ours"),
    RESTART_OURS: partial(call, "ours", "restart", num_workers=NUM_WORKERS),
}


@pytest.fixture(scope="module")
def comparison(probe: Probe, rounds: int) -> Comparison:
    return bracketed(f"start of {NUM_WORKERS} workers", PEERS, probe, rounds)


@pytest.mark.parametrize("name", PEERS)
def test_start(name, comparison, benchmark):
    replay_peer(benchmark, comparison, name)


def test_start_goals(comparison: Comparison, report: Report):
    unique = max(UNIQUE.get(READY_OURS, [math.nan]))
    verdicts = [
        READY.judge(comparison.median_s(READY_OURS), reason(comparison, READY_OURS)),
        UNIQUE_MEMORY.judge(unique, reason(comparison, READY_OURS)),
        RESTART.judge(comparison.median_s(RESTART_OURS), reason(comparison, RESTART_OURS)),
    ]
    memory = "unique memory, largest worker: " + ", ".join(f"{k} {max(v) / 1e6:.1f} MB" for k, v in UNIQUE.items())
    report.judge(comparison.title, verdicts, comparison, memory)


def reason(comparison: Comparison, name: str) -> str:
    missing = comparison.missing.get(name)
    return missing.summary if missing else ""
