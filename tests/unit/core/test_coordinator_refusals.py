"""What the coordinator refuses, in words that help, and what it writes down."""

from __future__ import annotations

import re
from typing import Any

import pytest

from runtime.core import inputs
from runtime.core.ledger import HISTORY, REMEMBERED, GradientLedger
from strategies.protocol import Apply, Compute, Drop, Grad, Joined, ProtocolError, Woke
from tests.support.answers import Line
from tests.support.harness import Puppet, Rig, apply, compute, puppet_rig


def refusal(rig: Rig, *commands: Any) -> str:
    """What is said about commands that are unlawful."""
    with pytest.raises(ProtocolError) as caught:
        rig.say(*commands)
    assert rig.lines[-1].commands == commands, "what was refused is in the record"
    return str(caught.value)


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (Compute(worker=1, num_samples=1), "worker 1: .*while it is busy"),
        (Compute(worker=3, num_samples=1), "worker 3: .*while it is busy"),
        (Compute(worker=4, num_samples=1), "worker 4: .*is not running"),
        (Compute(worker=9, num_samples=1), "worker 9: .*is not running"),
        *(
            (Compute(worker=0, num_samples=samples, accum=accum), "at least one sample per micro-batch")
            for samples, accum in ((0, 1), (-1, 1), (4, 0), (4, 5), (4, -1))
        ),
        (Compute(worker=0, num_samples=1, within_s=-1.0), "within_s is 0 or more"),
        (Compute(worker=0, num_samples=1, within_s=float("nan")), "within_s is 0 or more"),
        (apply(0), r"worker 0: Apply of \[0\]: not arrived, or used before"),
        (Drop(grads=(0,)), r"worker 0: Drop of \[0\]: not arrived, or used before"),
        (apply(1), r"Apply of \[1\]: not arrived"),
        (apply(2, 7), r"Apply of \[7\]: not arrived.*unused are \[2\]"),
        (apply(2, 2), "at least one gradient, and none twice"),
        (Apply(grads=(), weights=()), "at least one gradient, and none twice"),
        (Apply(grads=(2,), weights=()), "1 gradients but 0 weights"),
        (Apply(grads=(2,), weights=(1.0, 1.0)), "1 gradients but 2 weights"),
    ],
    ids=str,
)
def test_what_is_unlawful_is_refused_and_has_changed_nothing(command: Any, complaint: str) -> None:
    """Worker 0 is idle, and its gradient used; 1 computes, 2 has delivered, 3 finds no data, and 4 has left."""
    rig = puppet_rig(num_workers=5, num_samples=3)
    rig.say(*compute(0, 1, 2, 3))
    rig.arrive(0)
    rig.say(apply(0))
    rig.arrive(2)
    rig.lose(4, restarting=False)
    assert re.search(complaint, refusal(rig, command))
    assert set(rig.core.ledger.grads) == {2}


def test_a_refusal_ends_with_the_last_events_of_that_worker() -> None:
    ledger = GradientLedger()
    for t in range(HISTORY + 1):
        ledger.note_event(3, Joined(t=float(t), worker=3, incarnation=t))
    ledger.note_event(2, Joined(t=99.0, worker=2, incarnation=0))
    shown = str(ledger.error(3, "it")).partition("its last events:\n")[2].splitlines()
    assert [line.strip() for line in shown] == [
        str(Joined(t=float(t), worker=3, incarnation=t)) for t in range(1, HISTORY + 1)
    ]
    assert str(ledger.error(4, "it")).endswith("its last events:\n  none")
    rig = puppet_rig()
    rig.say(*compute(1))
    rig.arrive(1)
    rig.say(apply(0))
    assert f"{rig.events[2]}" in refusal(rig, apply(0)).partition("its last events:")[2]


def test_what_is_remembered_of_used_gradients_and_of_events_does_not_grow() -> None:
    ledger = GradientLedger()
    for number in range(3 * REMEMBERED):
        ledger.arrived(Grad(id=number, worker=7, incarnation=0, iteration=0, version=0, samples=2, assigned_samples=2))
        ledger.use((number,), "Apply")
        ledger.note_event(7, Joined(t=float(number), worker=7, incarnation=number))
    assert len(ledger.last_events(7)) == HISTORY
    with pytest.raises(ProtocolError, match="worker 7: "):
        ledger.use((3 * REMEMBERED - 1,), "Drop")
    with pytest.raises(ProtocolError, match=r"^Drop of \[0\]: not arrived"):
        ledger.use((0,), "Drop")


def test_the_event_that_a_strategy_falls_over_is_recorded() -> None:
    """Even when it can no longer say what state it is in."""

    class Clumsy(Puppet):
        def handle(self, event: Any) -> Any:
            if isinstance(event, Woke):
                self.log_state = lambda: 1 / 0  # type: ignore[assignment, return-value]
                raise KeyError(event.tag)
            return super().handle(event)

    rig = Rig(Clumsy()).start()
    with pytest.raises(KeyError, match="banana"):
        rig.core.receive(3.0, inputs.TimerFired("strategy:banana"))
    assert rig.lines[-1] == Line(event=Woke(t=3.0, tag="banana"), commands=(), version=0, state=None)
