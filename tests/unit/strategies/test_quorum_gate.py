"""Gates of one method, and those that are asked when a time has come: when, and what they see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from strategies.parts.composed import Composed
from strategies.parts.gates import QuorumGate, TimedQuorumGate
from strategies.parts.gates.base import NOTHING, Verdict
from strategies.protocol import AnyEvent, Arrived, Evaluated, Grad, Started, Timings, Wake, Woke
from tests.support.grads import make_grad
from tests.support.harness import HeapRun, make_job
from tests.support.laws import dead, unconserved, unlawful
from tests.support.rough import leaving, rough


@dataclass(kw_only=True)
class WithoutGate(QuorumGate):
    """It does not wait for some workers."""

    without: set[int] = field(default_factory=set)
    asked: list[tuple[set[int], set[int]]] = field(default_factory=list)

    def enough(self) -> bool:
        self.asked.append((set(self.buffer), set(self.missing)))
        return self.missing <= self.without


def test_it_is_asked_while_some_wait_and_some_are_missing() -> None:
    gate = WithoutGate(without={2})
    assert gate.begin((0, 1, 2), 0) == (0, 1, 2)
    assert gate.arrived(make_grad(0)) == NOTHING
    verdict = gate.arrived(make_grad(1))
    assert ([one.worker for one in verdict.apply], verdict.go) == ([0, 1], (0, 1))
    assert gate.asked == [({0}, {1, 2}), ({0, 1}, {2})]
    assert gate.members == {0, 1, 2}
    assert gate.version == 1


def test_what_all_have_delivered_is_enough_without_a_question() -> None:
    gate = WithoutGate()
    gate.begin((0, 1), 0)
    gate.arrived(make_grad(0))
    gate.asked.clear()
    assert gate.lost(1, restarting=True) == NOTHING
    assert [one.worker for one in gate.lost(1, restarting=False).apply] == [0]
    assert gate.joined(1) == NOTHING
    verdict = gate.lost(0, restarting=False)
    assert (verdict.apply, verdict.go, verdict.opens) == ((), (1,), True)
    assert gate.asked == []


@dataclass(kw_only=True)
class PatientGate(TimedQuorumGate):
    """It waits for all, but at most ``patience_s`` after the last update if ``least`` have delivered."""

    drops: ClassVar[bool] = False
    patience_s: float = 2.0
    least: int = 1

    def start(self, started: Started) -> None:
        self.now_s = self.since_s = started.t

    def observe_event(self, event: AnyEvent) -> None:
        self.now_s = event.t

    def applied(self, grads: tuple[Grad, ...]) -> None:
        self.since_s = self.now_s

    def ask_at_s(self) -> float | None:
        return self.since_s + self.patience_s

    def enough(self) -> bool:
        return len(self.buffer) >= self.least and self.now_s >= self.since_s + self.patience_s


class Told(PatientGate):
    """One whose time is set from outside."""

    due_s: float | None = None

    def ask_at_s(self) -> float | None:
        return self.due_s

    def enough(self) -> bool:
        return self.due_s is not None and self.now_s >= self.due_s


def updates_s(run: HeapRun) -> list[float]:
    return [t for t, _, _ in run.applied]


def test_it_updates_when_all_are_there_or_the_time_has_come() -> None:
    """Three workers of 1 s, one of 5, patience 2 s: at 2 and 4 without the slow one, at 5 with it, and so on.

    The slow one begins at 0, 5, 10 ... with an update of all, and the others wait for it from 1 s after each update."""
    run = HeapRun(Composed(gate=PatientGate()), make_job(max_time_s=20.5), [1.0, 1.0, 1.0, 5.0]).run()
    assert updates_s(run) == pytest.approx([2, 4, 5, 7, 9, 10, 12, 14, 15, 17, 19, 20])
    wakes = [command for command in run.commands if isinstance(command, Wake)]
    assert len(wakes) == len(updates_s(run)), "a timer for each update"


def arrived(t: float, worker: int) -> Arrived:
    return Arrived(t=t, grad=make_grad(worker), timings=Timings(compute_s=1.0), loss=None, sqr_norm=None)


def told(due_s: float | None) -> Told:
    gate = Told()
    gate.due_s = due_s
    gate.start(Started(t=0.0, workers=(0, 1), batch_samples=(1, 1), num_servers=1))
    gate.begin((0, 1), 0)
    gate.arrived(make_grad(0))
    return gate


def then(gate: Told, event: AnyEvent) -> list[object]:
    gate.observe_event(event)
    return list(gate.then(event))


def test_a_timer_follows_its_time() -> None:
    gate = told(5.0)
    [timer] = then(gate, arrived(1.0, 0))
    assert isinstance(timer, Wake)
    assert timer.at_s == 5.0
    assert then(gate, Evaluated(t=2.0, version=0, asked_s=2.0, metrics={})) == []
    assert then(gate, Woke(t=4.9999, tag=timer.tag)) == [timer]
    [verdict] = then(gate, Woke(t=5.0, tag=timer.tag))
    assert isinstance(verdict, Verdict)
    assert [one.worker for one in verdict.apply] == [0]
    gate = told(5.0)
    [first] = then(gate, arrived(1.0, 0))
    gate.due_s = 9.0
    [second] = then(gate, Evaluated(t=2.0, version=0, asked_s=2.0, metrics={}))
    assert isinstance(second, Wake)
    assert second.at_s == 9.0
    gate.due_s = 3.0
    [verdict] = then(gate, Evaluated(t=4.0, version=0, asked_s=4.0, metrics={}))
    assert isinstance(verdict, Verdict)
    assert isinstance(first, Wake)
    gate.due_s = 20.0
    gate.arrived(make_grad(1))
    assert len(then(gate, arrived(4.5, 1))) == 1
    assert then(gate, Woke(t=5.0, tag=first.tag)) == [], "a timer of the update before sets no other"


@pytest.mark.parametrize("seed", range(2))
def test_it_keeps_the_laws_whoever_leaves(seed: int) -> None:
    run = rough(Composed(gate=PatientGate(patience_s=1.5)), seed, 4, leaving)
    assert unlawful(run) + dead(run) + unconserved(run) == []
