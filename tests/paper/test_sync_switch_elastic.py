"""Sync-Switch's policy ``elastic`` (Li et al., ICDCS 2021): BSP continues without its stragglers."""

from __future__ import annotations

from strategies.protocol import Drop
from strategies.sync_switch import SyncSwitch
from tests.paper.test_sync_switch import greedy, sizes
from tests.support.harness import HeapRun, Rig, make_job
from tests.support.laws import dead, unconserved


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
