"""ASP against its source: Dean et al., "Large scale distributed deep networks", NeurIPS 2012, and the two data policies
that AntDT and DLRover compare with."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.job import ComputeOrder
from strategies.basic.asp import ASP
from tests.support.examples import examples
from tests.support.faults import random_seconds
from tests.support.harness import HeapRun, make_job, samples_of

SHARDS_PER_S = (4, 2, 1)
SHARD_SAMPLES = 12


def three_speeds(worker: int, order: ComputeOrder) -> float:
    """Three workers that go through 4, 2 and 1 shards of 12 samples a second."""
    return samples_of(order) / SHARD_SAMPLES / SHARDS_PER_S[worker]


def fourteen_shards(data: str) -> HeapRun:
    """One epoch of 14 shards, three batches of 4 samples each."""
    job = make_job(
        num_workers=3, num_samples=14 * SHARD_SAMPLES, global_batch_samples=12, batches_per_shard=3, epochs=1
    )
    return HeapRun(ASP(data=data), job, three_speeds).run()


def test_every_gradient_is_an_update_as_soon_as_it_arrives() -> None:
    """Dean et al., section 4.1 (Downpour SGD): replicas fetch parameters, compute and push without waiting for others.
    With 1, 1, 1 and 4 s: 130 updates in 40 s, of which 40, 40, 40 and 10 by the four workers. The others have updated
    the parameters at most 12 times meanwhile (three in 4 s), 2.954 times on average."""
    run = HeapRun(ASP(data="even"), make_job(), [1, 1, 1, 4]).run()
    assert run.updates == 130
    assert Counter(grad.worker for grad in run.used) == {0: 40, 1: 40, 2: 40, 3: 10}
    assert all(len(order.grads) == 1 for _, order, _ in run.applied)
    assert max(run.staleness) == 12
    assert fmean(run.staleness) == pytest.approx(2.954, abs=5e-4)


def test_fast_workers_draw_more_shards() -> None:
    """AntDT section V: faster workers consume more shards. At speeds 4:2:1, 14 shards divide into 8, 4 and 2, and
    everybody is done at 2.0 s."""
    run = fourteen_shards("dynamic")
    drawn = Counter(order.worker for order in run.orders.values())
    assert (drawn[0] / 3, drawn[1] / 3, drawn[2] / 3) == (8, 4, 2)
    assert run.core.finished_s == pytest.approx(2.0)


@examples(20)
@given(
    seed=st.integers(0, 10_000),
    num_workers=st.integers(1, 6),
    num_shards=st.integers(1, 20),
    batches_per_shard=st.integers(1, 3),
)
def test_with_shards_all_finish_within_one_shard(
    seed: int, num_workers: int, num_shards: int, batches_per_shard: int
) -> None:
    """AntDT, section V-C: the queue balances any speeds. When it is empty, no worker has more than one shard left."""
    job = make_job(
        num_workers=num_workers,
        num_samples=num_shards * batches_per_shard * 2,
        global_batch_samples=2 * num_workers,
        batches_per_shard=batches_per_shard,
        epochs=1,
        max_time_s=2000.0,
    )
    run = HeapRun(ASP(data="dynamic"), job, random_seconds(seed)).run()
    first_idle_s = min((t for t, kind, _ in run.notes if kind == "Starved"), default=run.core.finished_s)
    assert run.core.finished_s - first_idle_s <= batches_per_shard * 4.0
