"""The coordinator while workers restart and servers are restored."""

from __future__ import annotations

import pytest

from runtime.core import inputs
from strategies.protocol import (
    Arrived,
    Checkpoint,
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
from tests.support.harness import apply, compute, puppet_rig


def test_a_restarting_worker_draws_at_once_and_computes_when_it_is_back() -> None:
    """Its samples are those that it would have got had it been there, its parameters those of its return."""
    rig = puppet_rig(num_samples=100)
    rig.say(*compute(1))
    rig.arrive(1)
    rig.lose(0)
    rig.say(*compute(0, 1))
    assert (sorted(rig.orders), sorted(rig.core.ledger.busy)) == ([0, 2], [0, 1])
    rig.say(apply(0))
    rig.join(0)
    order = rig.orders[1]
    assert (order.worker, order.incarnation, order.version) == (0, 1, 1)
    calm = puppet_rig(num_samples=100)
    calm.say(*compute(1))
    calm.arrive(1)
    calm.say(*compute(0, 1))
    assert order.ranges == calm.orders[1].ranges
    rig.arrive(0)
    assert rig.events[-1].grad.version == 1


def test_a_lost_server_voids_everything() -> None:
    rig = puppet_rig(num_workers=4, num_samples=3)
    rig.say(*compute(0, 1, 2, 3))
    rig.arrive(0)
    rig.lose_server()
    assert rig.events[-1] == ServerLost(t=rig.t, server=0, incarnation=0, reason="killed")
    rig.core.receive(rig.at(None), inputs.GradientArrived(1, 1, Timings()))
    rig.core.receive(rig.at(None), inputs.WorkerFailed(2, "late", True))
    assert rig.received(Arrived, Failed)[1:] == []
    rig.restore()
    assert rig.events[-1] == Restored(t=rig.t, version=0, workers=(0, 1, 2, 3), servers=(0,))
    rig.core.receive(rig.at(None), inputs.GradientArrived(1, 1, Timings()))
    rig.say(*compute(0, 1, 2, 3))
    assert [event.grad.id for event in rig.received(Arrived)] == [0]
    with pytest.raises(ProtocolError):
        rig.say(apply(0))


def test_commands_while_a_server_is_lost_are_void() -> None:
    rig = puppet_rig()
    rig.say(*compute(0))
    rig.arrive(0)
    rig.lose_server()
    before = (len(rig.timers), len(rig.orders))
    rig.say(apply(0), *compute(0), Wake(at_s=50.0, tag="x"), Checkpoint(), Evaluate())
    rig.core.receive(rig.at(None), inputs.TimerFired("runtime:checkpoint"))
    assert (len(rig.timers), len(rig.orders)) == before
    assert (rig.applied, rig.checkpoints, rig.evaluations) == ([], [], [0])


def test_workers_lost_and_restarted_meanwhile_are_there_with_the_restore() -> None:
    """Lost and Joined are not notified: the strategy starts from the workers that Restored names."""
    rig = puppet_rig(num_workers=4, num_samples=4, epochs=1)
    rig.say(*compute(0, 1, 2, 3))
    left = rig.busy()[3].ranges
    rig.lose_server()
    rig.lose(0)
    rig.lose(3, restarting=False)
    rig.join(0)
    assert rig.received(Lost, Joined) == []
    rig.restore()
    assert rig.events[-1].workers == (0, 1, 2)
    rig.say(*compute(0, 1, 2))
    assert rig.busy()[0].incarnation == 1
    rig.arrive(0)
    rig.say(apply(4), *compute(0))
    assert rig.busy()[0].ranges == left
