"""KILL_RESTART in the coordinator: the strategy's events, and where samples go."""

from __future__ import annotations

import pytest

from runtime.core import inputs
from runtime.core.scheduling import ConstantPending
from strategies.protocol import (
    Arrived,
    Checkpoint,
    Joined,
    Lost,
    ProtocolError,
    Restart,
    Restored,
    Scheduling,
    ServerLost,
)
from tests.support.harness import Desk, HeapRun, apply, compute, make_job, puppet_desk
from tests.support.restarting import Restarting


def test_who_comes_back_while_all_are_halted_has_its_part_of_the_data_again() -> None:
    """With ``data=even`` nobody would have computed that part of the next epoch."""
    desk = puppet_desk()
    desk.say(Restart(node="worker:1"))
    desk.lose_server()
    desk.join(1)
    desk.restore()
    assert not desk.core.shards.departed


def test_a_worker_is_lost_at_once_and_joins_when_it_is_back() -> None:
    desk = puppet_desk(num_samples=12)
    desk.say(*compute(0, 1, 2))
    before = desk.busy()[1].ranges
    desk.say(Restart(node="worker:1"))
    [lost] = desk.received(Lost)
    assert (lost.worker, lost.incarnation, lost.restarting, lost.t) == (1, 0, False, desk.t)
    assert desk.restarts == [(desk.t, "worker:1", 0.0)]
    assert desk.noted("Requeued")[0]["samples"] == 1
    desk.core.receive(desk.at(None), inputs.GradientArrived(desk.orders[1].grad_id, 1, None))  # type: ignore[arg-type]
    assert not desk.received(Arrived), "what the dead one still says is not heard"
    desk.join(1)
    assert desk.received(Joined)[0].incarnation == 1
    desk.say(*compute(1))
    assert desk.busy()[1].incarnation == 1
    assert desk.busy()[1].ranges != before, "its old samples wait at the tail of the queue"


def test_a_gradient_that_had_arrived_stays_valid() -> None:
    desk = puppet_desk(num_samples=12)
    desk.say(*compute(0, 1))
    desk.arrive(1)
    desk.say(Restart(node="worker:1"))
    desk.say(apply(1))
    assert desk.updates == 1


def test_the_scheduler_says_how_long() -> None:
    desk = Desk(Restarting(orders=("worker:1@3",)), make_job(), scheduler=ConstantPending(pending_s=7.0)).start()
    assert [event.pending_s for event in desk.received(Scheduling)] == [7.0]
    desk.core.receive(3.0, inputs.TimerFired("strategy:worker:1"))
    assert desk.restarts == [(0.0, "worker:1", 7.0)]
    assert desk.noted("Restarting") == [{"node": "worker:1", "pending_s": 7.0}]


def test_who_cannot_restart_anybody_is_told_nothing() -> None:
    assert not puppet_desk().received(Scheduling)


def test_a_server_goes_with_everything_that_was_applied_stored() -> None:
    desk = puppet_desk(num_samples=12)
    desk.say(*compute(0, 1))
    desk.arrive(0)
    desk.say(Restart(node="server:0"))
    assert desk.checkpoints[-1][0] == desk.core.version == 0
    assert desk.restarts[-1][1] == "server:0"
    received = len(desk.events)
    desk.core.receive(desk.at(None), inputs.GradientArrived(desk.orders[1].grad_id, 1, None))  # type: ignore[arg-type]
    assert len(desk.events) == received, "nothing counts any more"
    desk.lose_server()
    assert desk.received(ServerLost)
    desk.restore()
    assert desk.received(Restored)[0].workers == (0, 1, 2)
    desk.say(*compute(0, 1, 2))
    assert len(desk.busy()) == 3


def test_who_is_pending_gets_no_order() -> None:
    desk = puppet_desk(num_samples=12)
    desk.say(Restart(node="worker:1"))
    with pytest.raises(ProtocolError, match="not running"):
        desk.say(*compute(1))


@pytest.mark.parametrize(
    "node",
    ["worker:3", "worker:-1", "worker:", "server:1", "host:0", "worker", "worker:0x1", "worker:²", "worker:01", ""],
)
def test_nodes_that_do_not_exist(node: str) -> None:
    desk = puppet_desk()
    with pytest.raises(ProtocolError, match="no such node"):
        desk.say(Restart(node=node))


def test_who_is_not_there_cannot_be_restarted() -> None:
    desk = puppet_desk()
    desk.lose(1)
    with pytest.raises(ProtocolError, match="not running"):
        desk.say(Restart(node="worker:1"))


def test_a_checkpoint_based_failover_takes_everybody_back() -> None:
    """Lost, then nothing counts until everybody is back at the checkpoint."""
    desk = puppet_desk(num_samples=12, failover="checkpoint")
    desk.say(*compute(0, 1, 2))
    desk.arrive(0)
    desk.lose(1)
    assert desk.received(Lost)[0].restarting
    received = len(desk.events)
    desk.core.receive(desk.at(None), inputs.GradientArrived(desk.orders[2].grad_id, 2, None))  # type: ignore[arg-type]
    assert len(desk.events) == received
    desk.core.receive(desk.at(None), inputs.WorkerJoined(1, 1))
    assert not desk.received(Joined)
    desk.restore()
    assert desk.received(Restored)[0].workers == (0, 1, 2)


@pytest.mark.parametrize("rule", ["bsp", "asp"])
def test_whole_jobs_use_every_sample(rule: str) -> None:
    orders = ("worker:1@3.5", "server:0@7.5", "worker:2@12.2", "worker:0@12.2")
    job = make_job(num_samples=103, global_batch_samples=8, epochs=3, max_time_s=400.0, checkpoint_every_s=5.0)
    run = HeapRun(Restarting(rule=rule, orders=orders), job, [1.0, 1.1, 0.9, 2.0], launch_s=1.5).run()
    assert run.core.status == "done", run.core.reason
    assert run.core.shards.samples_applied == 3 * 103
    assert len(run.received(ServerLost)) == 1
    assert sorted(event.worker for event in run.received(Joined)) == [0, 1, 2]


@pytest.mark.parametrize("epochs", [1, 3])
def test_what_a_pending_worker_had_drawn_goes_to_the_others_also_after_a_restore(epochs: int) -> None:
    """The checkpoint knows it with a shard of two batches, of which it has used one; it will be away for long."""
    job = make_job(
        num_samples=32,
        global_batch_samples=4,
        batches_per_shard=2,
        epochs=epochs,
        max_time_s=400.0,
        checkpoint_every_s=1.0,
    )
    strategy = Restarting(orders=("worker:1@1.6", "server:0@2.4"))
    run = HeapRun(strategy, job, [1.0] * 4, scheduler=ConstantPending(pending_s=60.0)).run()
    assert run.core.status == "done", run.core.reason
    assert run.core.shards.samples_applied == epochs * 32


def test_after_a_restore_the_samples_of_who_is_pending_do_not_wait_for_it() -> None:
    """The checkpoint says that worker 1 has drawn some; it may be away for long."""
    desk = puppet_desk(num_samples=12)
    desk.say(*compute(0, 1, 2))
    desk.say(Checkpoint())
    desk.say(Restart(node="worker:1"))
    desk.lose_server()
    desk.restore()
    assert not desk.core.shards.local.get(1)
    assert [one.worker for one in desk.core.shards.requeued] == [1]
    assert desk.core.shards.local[0]
