"""The coordinator while workers restart and servers are restored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core import inputs
from strategies.basic.asp import ASP
from strategies.protocol import (
    Arrived,
    Checkpoint,
    Drop,
    Evaluate,
    Failed,
    Joined,
    Lost,
    ProtocolError,
    Restored,
    ServerLost,
    Timings,
    Wake,
)
from tests.support.faults import Outage, random_outcome, random_seconds, restarts
from tests.support.harness import HeapRun, apply, compute, make_job, puppet_desk
from tests.support.laws import dead, played, unconserved, unlawful

# ---- orders for workers that restart --------------------------------------------------------------------------------


def test_a_restarting_worker_draws_at_once_and_computes_when_it_is_back() -> None:
    """Its samples are those that it would have got had it been there, its parameters those of its return."""
    desk = puppet_desk(num_samples=100)
    desk.say(*compute(1))
    desk.arrive(1)
    desk.lose(0)
    desk.say(*compute(0, 1))
    assert (sorted(desk.orders), sorted(desk.core.ledger.busy)) == ([0, 2], [0, 1])
    desk.say(apply(0))
    desk.join(0)
    order = desk.orders[1]
    assert (order.worker, order.incarnation, order.version) == (0, 1, 1)
    calm = puppet_desk(num_samples=100)
    calm.say(*compute(1))
    calm.arrive(1)
    calm.say(*compute(0, 1))
    assert order.ranges == calm.orders[1].ranges
    desk.arrive(0)
    assert desk.events[-1].grad.version == 1


def test_a_restarting_worker_is_given_one_order_only() -> None:
    desk = puppet_desk(num_samples=100)
    desk.lose(0)
    desk.say(*compute(0))
    with pytest.raises(ProtocolError, match="busy"):
        desk.say(*compute(0))


def test_an_order_for_a_restarting_worker_survives_another_crash() -> None:
    desk = puppet_desk()
    desk.lose(0)
    desk.say(*compute(0, 1, 2))
    desk.lose(0)
    assert (set(desk.busy_workers()), set(desk.core.ledger.held)) == ({0, 1}, {2})
    desk.join(0)
    assert desk.busy()[0].incarnation == 2


def test_an_order_for_a_worker_that_is_given_up_goes_to_the_others() -> None:
    desk = puppet_desk()
    desk.lose(0)
    desk.say(*compute(0, 1, 2))
    desk.lose(0, restarting=False)
    assert set(desk.busy()) == {1, 2}


def test_an_order_for_a_restarting_worker_is_held_like_any_other() -> None:
    desk = puppet_desk()
    desk.lose(2)
    desk.say(*compute(0, 1, 2))
    assert desk.noted("Starved") == [{"worker": 2}]
    desk.arrive(0)
    desk.say(Drop(grads=(0,)))
    desk.arrive(1)
    assert desk.empties() == []
    desk.join(2)
    assert set(desk.busy()) == {2}


def test_a_lost_server_voids_the_orders_of_restarting_workers() -> None:
    desk = puppet_desk()
    desk.lose(0)
    desk.say(*compute(0))
    desk.lose_server()
    desk.join(0)
    desk.restore()
    assert desk.busy_workers() == []
    desk.say(*compute(0, 1))
    assert set(desk.busy()) == {0, 1}


# ---- servers --------------------------------------------------------------------------------------------------------


def test_a_lost_server_voids_everything() -> None:
    desk = puppet_desk(num_workers=4, num_samples=3)
    desk.say(*compute(0, 1, 2, 3))
    desk.arrive(0)
    desk.lose_server()
    assert desk.events[-1] == ServerLost(t=desk.t, server=0, incarnation=0, reason="killed")
    desk.core.receive(desk.at(None), inputs.GradientArrived(1, 1, Timings()))
    desk.core.receive(desk.at(None), inputs.WorkerFailed(2, "late", True))
    assert desk.received(Arrived, Failed)[1:] == []
    desk.restore()
    assert desk.events[-1] == Restored(t=desk.t, version=0, workers=(0, 1, 2, 3), servers=(0,))
    desk.core.receive(desk.at(None), inputs.GradientArrived(1, 1, Timings()))
    desk.say(*compute(0, 1, 2, 3))
    assert [event.grad.id for event in desk.received(Arrived)] == [0]
    with pytest.raises(ProtocolError):
        desk.say(apply(0))


def test_commands_while_a_server_is_lost_are_void() -> None:
    desk = puppet_desk()
    desk.say(*compute(0))
    desk.arrive(0)
    desk.lose_server()
    before = (len(desk.timers), len(desk.orders))
    desk.say(apply(0), *compute(0), Wake(at_s=50.0, tag="x"), Checkpoint(), Evaluate())
    desk.core.receive(desk.at(None), inputs.TimerFired("runtime:checkpoint"))
    assert (len(desk.timers), len(desk.orders)) == before
    assert (desk.applied, desk.checkpoints, desk.evaluations) == ([], [], [0])


def test_the_job_continues_with_the_checkpoints_state() -> None:
    """Samples applied since the checkpoint are done again, those before are not."""
    desk = puppet_desk(num_samples=4, epochs=1)
    desk.say(*compute(0, 1, 2))
    desk.arrive(0)
    desk.say(apply(0), Checkpoint())
    again = desk.busy()[1].ranges
    desk.arrive(1)
    desk.say(apply(1))
    desk.lose_server()
    desk.restore()
    assert (desk.core.version, desk.core.shards.samples_applied) == (1, 1)
    desk.say(*compute(0, 1, 2))
    assert desk.busy()[1].ranges == again
    for worker in (0, 1, 2):
        desk.arrive(worker)
    desk.say(apply(*sorted(desk.core.ledger.grads)))
    assert (desk.core.status, desk.core.version) == ("done", 2)


def test_workers_lost_and_restarted_meanwhile_are_there_with_the_restore() -> None:
    """Lost and Joined are not notified: the strategy starts from the workers that Restored names."""
    desk = puppet_desk(num_workers=4, num_samples=4, epochs=1)
    desk.say(*compute(0, 1, 2, 3))
    left = desk.busy()[3].ranges
    desk.lose_server()
    desk.lose(0)
    desk.lose(3, restarting=False)
    desk.join(0)
    assert desk.received(Lost, Joined) == []
    desk.restore()
    assert desk.events[-1].workers == (0, 1, 2)
    desk.say(*compute(0, 1, 2))
    assert desk.busy()[0].incarnation == 1
    desk.arrive(0)
    desk.say(apply(4), *compute(0))
    assert desk.busy()[0].ranges == left


def test_a_second_server_may_be_lost_meanwhile() -> None:
    desk = puppet_desk()
    desk.lose_server()
    desk.core.receive(desk.at(None), inputs.ServerLost(1, 0, "killed"))
    assert [event.server for event in desk.received(ServerLost)] == [0, 1]
    desk.restore()
    desk.say(*compute(0))
    assert set(desk.busy()) == {0}


def test_no_held_compute_is_resolved_while_a_server_is_lost() -> None:
    desk = puppet_desk()
    desk.say(*compute(0, 1, 2))
    desk.lose_server()
    desk.say()
    assert desk.empties() == []


@given(seed=st.integers(0, 10_000), num_workers=st.integers(1, 5))
def test_nothing_is_lost_or_used_twice_over_many_restores(seed: int, num_workers: int) -> None:
    job = make_job(
        num_workers=num_workers,
        num_samples=10 * num_workers,
        global_batch_samples=num_workers,
        epochs=2,
        max_time_s=2000.0,
        checkpoint_every_s=3.0,
    )
    faults = [*restarts(seed, num_workers), *(Outage(4.0 * k, 1.5) for k in range(1, 6))]
    run = HeapRun(ASP(data="dynamic"), job, random_seconds(seed), faults, random_outcome(seed))
    assert played(run) == []
    assert unlawful(run) + dead(run) + unconserved(run) == []
