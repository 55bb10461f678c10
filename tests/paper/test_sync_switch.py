"""Sync-Switch against Li et al., ICDCS 2021, its policy elastic and its published switch by a restart, and what STAR
says of its straggler rule (section V-A)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core import inputs
from runtime.core.scheduling import ConstantPending
from strategies.protocol import Drop
from strategies.sync_switch import SyncSwitch
from tests.support.faults import random_outcome, random_seconds
from tests.support.harness import HeapRun, Rig, make_job
from tests.support.laws import dead, played, unconserved, unlawful
from tests.support.rough import leaving


def greedy(**changes: object) -> SyncSwitch:
    """Only stragglers decide, from the first iteration on."""
    return SyncSwitch(**{"bsp_frac": 1.0, "warmup_iters": 0, **changes})  # type: ignore[arg-type]


def sizes(run: Rig) -> list[int]:
    """Gradients of every update."""
    return [len(order.grads) for _, order, _ in run.applied]


def test_it_is_synchronous_for_bsp_frac_of_a_job_whose_length_is_known() -> None:
    """Li et al., abstract (timing policy). A quarter of 40 samples are ten: three rounds of four, then 28 updates
    of one gradient. Li et al., abstract (timing policy): a part of the job needs its length."""
    job = make_job(num_samples=40, epochs=1)
    run = HeapRun(SyncSwitch(bsp_frac=0.25, straggler_policy="none"), job, [1, 1, 1, 4]).run()
    assert sizes(run) == [4] * 3 + [1] * 28
    with pytest.raises(ValueError, match=r"bsp_frac=0.25: is part of a job without a number of epochs; set workload"):
        SyncSwitch(bsp_frac=0.25).validate_length(None)
    SyncSwitch(bsp_frac=0.25).validate_length(3)
    for whole in (0.0, 1.0):
        SyncSwitch(bsp_frac=whole).validate_length(None)


@pytest.mark.parametrize(("bsp_frac", "rounds"), [(0.0625, 2), (0.5, 10)])
def test_bsp_frac_is_a_part_of_all_epochs_together(bsp_frac: float, rounds: int) -> None:
    """Li et al., abstract (timing policy). Two epochs of 40 samples: 80, in rounds of four."""
    job = make_job(num_samples=40, epochs=2)
    run = HeapRun(SyncSwitch(bsp_frac=bsp_frac, straggler_policy="none"), job, [1.0] * 4).run()
    assert sizes(run).count(4) == rounds
    assert dead(run) + unconserved(run) == []


@pytest.mark.parametrize(("switch_s", "end_s"), [(0.0, 10.0), (3.0, 13.0)])
def test_the_cost_of_a_switch_is_part_of_the_time(switch_s: float, end_s: float) -> None:
    """Departure from Li et al.'s evaluation. Three rounds of a second, the switch, and 28 gradients of four workers:
    seven seconds more. The published evaluation takes the cost of the switch off."""
    strategy = SyncSwitch(bsp_frac=0.25, straggler_policy="none", switch_s=switch_s)
    run = HeapRun(strategy, make_job(num_samples=40, epochs=1), [1.0] * 4).run()
    assert (run.core.status, run.core.finished_s) == ("done", end_s)
    assert not [t for t, _, _ in run.applied if 3.0 < t <= 3.0 + switch_s]


def test_computes_in_progress_arrive_during_a_switch() -> None:
    """Beyond the paper. From ASP to BSP: worker 1 was applied and waits for the end of the switch, worker 0 arrives
    meanwhile."""
    rig = Rig(greedy(duration_s=0.0, switch_s=3.0), make_job(num_workers=2, global_batch_samples=2)).start()
    rig.arrive(0, 1.0)
    rig.arrive(1, 4.0, compute_s=4.0)
    assert rig.busy_workers() == []
    rig.core.receive(7.0, inputs.TimerFired("strategy:switched"))
    assert rig.busy_workers() == [0, 1]
    rig.arrive(1, 8.0)
    rig.arrive(0, 8.5)
    assert [t for t, _, _ in rig.applied] == [4.0, 8.0]
    assert rig.busy_workers() == []
    rig.core.receive(11.0, inputs.TimerFired("strategy:switched"))
    assert rig.busy_workers() == [1]


def test_a_restore_rolls_back_the_count_of_samples() -> None:
    """Beyond the paper. Half of 16 samples: after two rounds it is asynchronous; back at version 0 it is not."""
    rig = Rig(SyncSwitch(bsp_frac=0.5), make_job(num_samples=16, epochs=1)).start()
    for _ in range(2):
        for worker in range(4):
            rig.arrive(worker)
    assert rig.core.strategy.log_state()["mode"] == "asp"
    rig.lose_server()
    rig.restore()
    rig.arrive(0)
    assert sizes(rig) == [4, 4]
    assert rig.core.strategy.log_state()["mode"] == "bsp"


def test_it_is_asynchronous_while_there_is_a_straggler() -> None:
    """STAR, section V-A: "switches to ASGD in the presence of predicted stragglers". The fourth worker needs 4 s,
    seen from 4 s on: flagged with its third iteration at 12 s. Three rounds, then each by itself: 3 + 3 * 28 + 7
    updates in 40 s."""
    run = HeapRun(greedy(), make_job(), [1, 1, 1, 4]).run()
    assert [t for t, order, _ in run.applied if len(order.grads) == 4] == [4.0, 8.0, 12.0]
    assert sizes(run) == [4] * 3 + [1] * 91


def elastic(**changes: object) -> SyncSwitch:
    """Left out with its first slow iteration."""
    return greedy(**{"straggler_policy": "elastic", "duration_s": 0.0, "data": "shared", **changes})


def test_a_straggler_is_left_out_and_probed() -> None:
    """Li et al., abstract (online policies for transient stragglers). The fourth worker needs 4 s. One round of all,
    then the others make one a second. Probed at 14, 24 and 34 s, it is still slow, and what it has computed is computed
    again by others."""
    run = HeapRun(elastic(), make_job(), [1, 1, 1, 4]).run()
    assert sizes(run) == [4] + [3] * 36
    assert [t for t, order, _ in run.applied if len(order.grads) == 4] == [4.0]
    dropped = [
        (line.event.t, command.requeue) for line in run.lines for command in line.commands if type(command) is Drop
    ]
    assert dropped == [(18.0, True), (28.0, True), (38.0, True)]
    assert {line.event.grad.worker for line in run.lines if Drop in map(type, line.commands)} == {3}
    assert run.core.strategy.log_state()["left_out"] == 1


def test_at_the_switch_to_asp_all_workers_are_readmitted() -> None:
    """Beyond the paper: half of 80 samples are 4 + 12 * 3 by 16 s. The probe in progress by then, from 14 to 18 s,
    counts."""
    run = HeapRun(elastic(bsp_frac=0.5), make_job(num_samples=80, epochs=1), [1, 1, 1, 4]).run()
    assert sizes(run) == [4] + [3] * 12 + [1] * 40
    assert [t for t, _, grads in run.applied if grads[0].worker == 3][:1] == [18.0]
    assert dead(run) + unconserved(run) == []


def test_left_out_workers_are_readmitted_when_no_other_remains() -> None:
    """Beyond the paper: a round needs a member."""
    rig = Rig(elastic(), make_job(num_workers=2, global_batch_samples=2)).start()
    rig.arrive(0, 1.0)
    rig.arrive(1, 4.0, compute_s=4.0)
    assert (rig.busy_workers(), rig.core.strategy.log_state()["left_out"]) == ([0], 1)
    rig.lose(0, 5.0, restarting=False)
    assert (rig.busy_workers(), rig.core.strategy.log_state()["left_out"]) == ([1], 0)
    rig.arrive(1, 9.0, compute_s=4.0)
    assert rig.busy_workers() == [1], "there is nobody to do without it"
    assert sizes(rig) == [2, 1]


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
