"""Rough jobs for tests of identities: two strategies that should do the same go through the same mishaps."""

from __future__ import annotations

from collections.abc import Callable

from strategies.protocol import Strategy
from tests.support.faults import Fault, departures, random_outcome, random_seconds, restarts
from tests.support.harness import HeapRun, make_job
from tests.support.laws import first_difference, played

Plan = Callable[[int, int], list[Fault]]


def leaving(seed: int, num_workers: int) -> list[Fault]:
    """Workers and servers that restart, and workers that leave for good, some of them while they restart."""
    return restarts(seed, num_workers) + departures(seed, num_workers)


def rough(strategy: Strategy, seed: int, num_workers: int, plan: Plan = restarts) -> HeapRun:
    """Three epochs with random durations, failures, and the faults of a plan."""
    job = make_job(
        num_workers=num_workers,
        num_samples=12 * num_workers + 5,
        global_batch_samples=2 * num_workers + 1,
        batches_per_shard=1 + seed % 3,
        epochs=3,
        max_time_s=2000.0,
        checkpoint_every_s=4.0,
    )
    run = HeapRun(strategy, job, random_seconds(seed), plan(seed, num_workers), random_outcome(seed))
    assert played(run) == []
    return run


def parted(one: HeapRun, other: HeapRun) -> str:
    """Where two transcripts part; empty when they are equal, byte for byte."""
    return "" if one.transcript() == other.transcript() else first_difference(one.lines, other.lines)
