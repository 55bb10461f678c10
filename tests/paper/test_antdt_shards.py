"""AntDT's Stateful DDS with its own unit, the shard of M batches (ICDE 2024, sections V-C, VII-A5 and VII-D)."""

from __future__ import annotations

from math import ceil

import pytest

from strategies.basic.asp import ASP
from tests.support.faults import Crash
from tests.support.harness import HeapRun, make_job

M, BATCH, BATCHES = 100, 4, 800
"""Section VII-A5: M = 100 batches of a worker make a shard. Eight shards."""


def killed_after(seconds: float, failover: str) -> HeapRun:
    """Four workers with a batch a second; worker 2 dies and is back a second later."""
    job = make_job(
        num_samples=BATCH * BATCHES,
        global_batch_samples=4 * BATCH,
        batches_per_shard=M,
        epochs=1,
        max_time_s=1000.0,
        failover=failover,
    )
    return HeapRun(ASP(), job, [1.0] * 4, [Crash(seconds, 2, 1.0)]).run()


@pytest.mark.parametrize("seconds", [30.5, 60.5, 130.5])
def test_the_shard_of_a_killed_worker_is_computed_again(seconds: float) -> None:
    """Section VII-D2: "the total number of DONE shards is equal to" ceil(N / (B M)); VII-D3: the delay "mainly comes
    from re-computing the data shards allocated to the crashed node". With ``shards`` only the batch in progress is."""
    kept, whole = (killed_after(seconds, failover).core.shards for failover in ("shards", "whole_shards"))
    assert kept.finished
    assert whole.finished
    assert kept.shards_done == whole.shards_done == ceil(BATCHES / M)
    assert (kept.samples_repeated, kept.samples_applied) == (0, BATCH * BATCHES)
    done = int(seconds) % M  # of its hundred batches
    assert whole.samples_repeated == BATCH * done
    assert whole.samples_applied == BATCH * (BATCHES + done)
