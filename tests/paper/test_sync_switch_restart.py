"""Sync-Switch as its published code switches (Li et al., ICDCS 2021): a new cluster from a checkpoint, at its cost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.scheduling import ConstantPending
from strategies.sync_switch import SyncSwitch
from tests.paper.test_sync_switch import greedy, sizes
from tests.support.faults import random_outcome, random_seconds
from tests.support.harness import HeapRun, make_job
from tests.support.laws import dead, played, unconserved, unlawful
from tests.support.rough import leaving


def test_a_switch_restarts_every_server_and_every_worker() -> None:
    """Li et al., published code. Three rounds of a second; two servers, one after the other, and the workers together
    are each pending for 3 s and launched within one; then 28 gradients of four workers. All of it is part of the time.
    """
    job = make_job(num_samples=40, epochs=1, num_servers=2)
    strategy = SyncSwitch(bsp_frac=0.25, straggler_policy="none", switch="restart")
    run = HeapRun(strategy, job, [1.0] * 4, scheduler=ConstantPending(pending_s=3.0)).run()
    restarts = [(t, node) for t, node, _ in run.restarts]
    assert restarts == [(3.0, "server:0"), (7.0, "server:1")] + [(11.0, f"worker:{worker}") for worker in range(4)]
    assert {version for version, _ in run.checkpoints} == {3}
    assert (run.core.status, run.core.finished_s) == ("done", 22.0)
    assert sizes(run) == [4] * 3 + [1] * 28
    assert {grad.incarnation for grad in run.used[:12]} == {0}
    assert {grad.incarnation for grad in run.used[12:]} == {1}
    assert dead(run) + unconserved(run) + unlawful(run) == []


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10_000),
    num_workers=st.integers(2, 6),
    num_servers=st.integers(1, 3),
    pending_s=st.sampled_from([0.0, 0.75, 6.0]),
    failover=st.sampled_from(["shards", "checkpoint"]),
    policy=st.sampled_from(["greedy", "elastic"]),
)
def test_restarts_mixed_with_crashes_lose_no_sample(
    seed: int, num_workers: int, num_servers: int, pending_s: float, failover: str, policy: str
) -> None:
    """Beyond the paper. Every sample exactly once, and nobody stuck, whatever strikes when. The audit of what is lawful
    knows of no worker whose loss is one for all; the ledger does."""
    job = make_job(
        num_workers=num_workers,
        num_servers=num_servers,
        num_samples=12 * num_workers + 5,
        global_batch_samples=2 * num_workers + 1,
        batches_per_shard=1 + seed % 3,
        epochs=3,
        max_time_s=20_000.0,
        checkpoint_every_s=4.0,
        failover=failover,
    )
    strategy = greedy(bsp_frac=0.7, duration_s=2.0, switch="restart", straggler_policy=policy)
    scheduler = ConstantPending(pending_s=pending_s)
    plan = leaving(seed, num_workers)
    run = HeapRun(strategy, job, random_seconds(seed), plan, random_outcome(seed), scheduler=scheduler)
    assert played(run) + dead(run) + unconserved(run) == []
    assert failover == "checkpoint" or unlawful(run) == []
