"""Sync-Switch against its sources: Li et al., ICDCS 2021, and what STAR says of its straggler rule (section V-A)."""

from __future__ import annotations

import pytest

from runtime.core import inputs
from strategies.sync_switch import SyncSwitch
from tests.support.harness import HeapRun, Rig, make_job
from tests.support.laws import dead, unconserved


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
