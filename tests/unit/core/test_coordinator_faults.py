"""The coordinator when workers, gradients and servers are lost, and when time misbehaves."""

from __future__ import annotations

import pytest

from runtime.core import inputs
from strategies.basic.bsp import BSP
from strategies.protocol import Arrived, Failed, Joined, Lost, ProtocolError, Timings
from tests.support.harness import Rig, apply, compute, puppet_rig


def test_held_computes_wait_while_somebody_restarts() -> None:
    rig = puppet_rig()
    rig.say(*compute(0, 2, 1))
    rig.lose(0)
    rig.arrive(2)
    assert rig.empties() == []
    rig.join(0)
    assert rig.empties() == [1], "it is back and asks for nothing, so nothing will come"


def test_what_the_dead_still_say_is_not_heard() -> None:
    rig = puppet_rig(num_samples=100)
    rig.say(*compute(0))
    rig.lose(0)
    rig.core.receive(rig.at(None), inputs.GradientArrived(0, 0, Timings()))
    rig.core.receive(rig.at(None), inputs.WorkerFailed(0, "late", True))
    rig.join(0)
    rig.core.receive(rig.at(None), inputs.GradientArrived(0, 0, Timings()))
    rig.say(*compute(0))
    rig.core.receive(rig.at(None), inputs.GradientArrived(0, 0, Timings()))
    assert rig.received(Arrived, Failed) == []
    rig.arrive(0)
    assert [event.grad.id for event in rig.received(Arrived)] == [1]


def test_a_restart_that_fails_is_told_once() -> None:
    rig = puppet_rig()
    rig.lose(0)
    rig.lose(0)
    assert len(rig.received(Lost)) == 1
    rig.core.receive(rig.at(None), inputs.WorkerJoined(0, 1))
    assert rig.received(Joined) == []
    rig.core.receive(rig.at(None), inputs.WorkerJoined(0, 2))
    assert [event.incarnation for event in rig.received(Joined)] == [2]


def test_a_restart_that_is_given_up_is_told() -> None:
    """Whoever waits for the worker must stop waiting."""
    rig = puppet_rig()
    rig.lose(0)
    rig.lose(0, restarting=False)
    assert [event.restarting for event in rig.received(Lost)] == [True, False]


def test_a_gradient_that_is_not_finite_is_never_applied_and_its_samples_are_done_again() -> None:
    rig = puppet_rig()
    rig.say(*compute(0, 1, 2))
    bad = rig.busy()[0].ranges
    rig.arrive(0, finite=False)
    assert rig.dropped == [0]
    assert rig.received(Failed) == [Failed(t=rig.t, worker=0, reason="gradient is not finite", retryable=True)]
    assert rig.noted("Nonfinite") == [{"worker": 0, "grad": 0}]
    assert rig.busy()[2].ranges == bad, "by whoever waits for data"
    with pytest.raises(ProtocolError):
        rig.say(apply(0))


def test_three_in_a_row_that_are_not_finite_end_the_job() -> None:
    rig = Rig(BSP()).start()
    for _ in range(2):
        rig.arrive(1, finite=False)
        assert rig.core.status is None
    rig.arrive(1, finite=False)
    assert rig.core.status == "failed"
    assert rig.core.reason == "worker 1: gradient is not finite, 3 times in a row"


def test_time_never_goes_back_for_the_strategy() -> None:
    rig = puppet_rig(num_samples=100)
    rig.say(*compute(0, 1))
    rig.arrive(0, t=10.0)
    rig.arrive(1, t=9.0)
    rig.lose(1, t=8.0)
    rig.join(1, t=7.0)
    assert [event.t for event in rig.events[2:]] == [10.0] * 4
    rig.core.finish(6.0, "done", "enough")
    assert rig.core.finished_s == 10.0
