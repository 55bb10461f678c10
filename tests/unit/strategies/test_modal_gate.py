"""The gate with modes: in each of them it is the gate of that name, and a change keeps what has arrived."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.basic.static_x import ExactlyGate
from strategies.parts.gates import AllGate, EachGate, Gate, GroupsGate, Verdict
from strategies.protocol import Grad
from strategies.star.modal import ASGD, SSGD, ModalGate, Mode

HALVES = ((0, 2, 4), (1, 3))


class Crowd:
    """Workers at a gate: they compute when they may, and deliver, restart or leave at random."""

    def __init__(self, gate: Gate, num_workers: int) -> None:
        self.gate, self.version, self.count = gate, 0, 0
        self.busy, self.away = dict[int, int](), set[int]()
        self.applied, self.delivered = list[list[int]](), list[int]()
        self.go(gate.begin(range(num_workers), 0))

    def go(self, workers: Any) -> None:
        for worker in workers:
            assert worker not in self.busy, "two orders at a time"
            self.busy[worker] = self.count
            self.count += 1

    def carry_out(self, verdict: Verdict) -> None:
        self.applied += [[grad.id for grad in verdict.apply]] if verdict.apply else []
        self.go(verdict.go)

    def deliver(self, worker: int) -> None:
        number = self.busy.pop(worker)
        self.delivered.append(number)
        self.carry_out(self.gate.arrived(made(worker, number)))

    def step(self, draw: random.Random, leaving: bool) -> None:
        here = sorted(self.busy.keys() - self.away)
        roll = draw.random()
        if self.away and roll < 0.2:
            worker = draw.choice(sorted(self.away))
            self.away.discard(worker)
            if worker in self.busy:
                del self.busy[worker]  # its work is lost, and ordered again
            self.carry_out(self.gate.joined(worker))
        elif here and roll < 0.3:
            worker = draw.choice(here)
            self.away.add(worker)
            self.carry_out(self.gate.lost(worker, restarting=True))
        elif leaving and len(here) > 1 and roll < 0.35:
            worker = draw.choice(here)
            del self.busy[worker]
            self.carry_out(self.gate.lost(worker, restarting=False))
        elif here:
            self.deliver(draw.choice(here))


def made(worker: int, number: int) -> Grad:
    return Grad(id=number, worker=worker, incarnation=0, iteration=0, version=0, samples=1, assigned_samples=1)


def in_mode(mode: Mode) -> ModalGate:
    gate = ModalGate()
    gate.mode = mode
    return gate


class Halves:
    """The gate of groups, divided as soon as it begins."""

    def __new__(cls) -> Any:
        gate = GroupsGate()
        begin = gate.begin
        gate.begin = lambda workers, version: (begin(workers, version), gate.regroup(HALVES))[0]  # type: ignore[method-assign]
        return gate


PAIRS: dict[str, tuple[Mode, Callable[[], Gate]]] = {
    "all": (SSGD, AllGate),
    "each": (ASGD, EachGate),
    "exactly 2": (Mode(x=2), lambda: ExactlyGate(x=2)),
    "exactly 4": (Mode(x=4), lambda: ExactlyGate(x=4)),
    "groups": (Mode(groups=HALVES), Halves),
}


@pytest.mark.parametrize("name", PAIRS)
@given(seed=st.integers(0, 10_000), leaving=st.booleans())
def test_in_each_mode_it_is_the_gate_of_that_name(name: str, seed: int, leaving: bool) -> None:
    mode, make = PAIRS[name]
    one, other = Crowd(in_mode(mode), 5), Crowd(make(), 5)
    first, second = random.Random(seed), random.Random(seed)
    for _ in range(40):
        one.step(first, leaving)
        other.step(second, leaving)
        assert (one.applied, one.busy) == (other.applied, other.busy)


def test_modes_differ() -> None:
    """Negative control: after one gradient of each but the last."""

    def updates(mode: Mode) -> list[list[int]]:
        crowd = Crowd(in_mode(mode), 5)
        for worker in range(4):
            crowd.deliver(worker)
        return crowd.applied

    assert [len(updates(mode)) for mode, _ in PAIRS.values()] == [0, 4, 2, 1, 1]


def test_a_buffer_of_more_than_twice_x_makes_several_updates_oldest_first() -> None:
    """Two groups of four wait for one each; then every two gradients are an update, and six are waiting."""
    gate = in_mode(Mode(groups=((0, 1, 2, 3), (4, 5, 6, 7))))
    crowd = Crowd(gate, 8)
    for worker in (6, 0, 1, 4, 2, 5):
        crowd.deliver(worker)
    assert crowd.applied == []
    verdicts = gate.switch(Mode(x=2))
    assert [[grad.worker for grad in verdict.apply] for verdict in verdicts] == [[0, 6], [1, 4], [2, 5]]
    assert [verdict.go for verdict in verdicts] == [(0, 6), (1, 4), (2, 5)]


def test_what_is_left_of_a_buffer_waits_for_the_next() -> None:
    gate = in_mode(Mode(groups=((0, 1, 2, 3), (4, 5, 6, 7))))
    crowd = Crowd(gate, 8)
    for worker in (6, 0, 1, 4, 2):
        crowd.deliver(worker)
    for verdict in gate.switch(Mode(x=2)):
        crowd.carry_out(verdict)
    assert [grad.worker for grad in gate.at.buffer.values()] == [2]
    crowd.deliver(3)
    assert crowd.applied[-1] == [2, 3]


def test_a_change_to_single_updates_applies_what_waits_one_by_one() -> None:
    gate = ModalGate()
    crowd = Crowd(gate, 3)
    for worker in (2, 0):
        crowd.deliver(worker)
    assert [[grad.worker for grad in verdict.apply] for verdict in gate.switch(ASGD)] == [[2], [0]]


def test_a_change_to_all_completes_no_update_while_somebody_computes() -> None:
    gate = in_mode(Mode(x=3))
    crowd = Crowd(gate, 4)
    for worker in (3, 1):
        crowd.deliver(worker)
    assert gate.switch(SSGD) == []
    crowd.deliver(0)
    crowd.deliver(2)
    assert len(crowd.applied[-1]) == 4


def test_groups_are_of_who_is_there() -> None:
    """Worker 1 left before the change, and worker 4 came, whom no group names: it makes updates by itself."""
    gate = ModalGate()
    crowd = Crowd(gate, 4)
    del crowd.busy[1]
    crowd.carry_out(gate.lost(1, restarting=False))
    crowd.carry_out(gate.joined(4))
    assert gate.switch(Mode(groups=((0, 1), (2, 3)))) == []
    crowd.deliver(0)
    crowd.deliver(4)
    assert [len(update) for update in crowd.applied] == [1, 1]
    crowd.deliver(3)
    assert len(crowd.applied) == 2


@given(seed=st.integers(0, 10_000))
def test_changes_at_random_lose_nothing_and_leave_nobody_waiting(seed: int) -> None:
    """Whoever does not compute has a gradient in the buffer; whatever was delivered is applied once or waits."""
    draw, gate = random.Random(seed), ModalGate()
    crowd = Crowd(gate, 6)
    modes = [SSGD, ASGD, Mode(x=2), Mode(x=5), Mode(groups=((0, 1), (2, 3, 4), (5,))), Mode(groups=((5, 4), (0,)))]
    for _ in range(60):
        crowd.step(draw, leaving=True)
        if draw.random() < 0.2:
            for verdict in gate.switch(draw.choice(modes)):
                crowd.carry_out(verdict)
        waiting = {grad.worker for grad in gate.at.buffer.values()}
        assert gate.members == gate.at.computing | (waiting & gate.members)
        assert gate.at.computing == set(crowd.busy)
    used = [number for update in crowd.applied for number in update]
    assert sorted([*used, *(grad.id for grad in gate.at.buffer.values())]) == sorted(crowd.delivered)


def test_a_mode_says_what_it_is() -> None:
    modes = (SSGD, ASGD, Mode(x=3), Mode(groups=((2, 0), (1,))))
    assert [str(mode) for mode in modes] == ["ssgd", "asgd", "static 3", "dynamic 2 1"]


def delivered_twice() -> ModalGate:
    """Worker 2 of four has delivered, left, come back and delivered again."""
    gate = ModalGate()
    gate.begin(range(4), 0)
    gate.arrived(made(2, 0))
    gate.lost(2, restarting=False)
    gate.joined(2)
    gate.arrived(made(2, 1))
    return gate


def test_who_delivered_twice_waits_for_the_second_update() -> None:
    """Worker 2 delivers, leaves, comes back and delivers again; an update takes the first of these, and it waits on."""
    gate = delivered_twice()
    gate.arrived(made(1, 2))
    (first,) = gate.switch(Mode(x=2))
    assert [grad.id for grad in first.apply] == [0, 1]
    gate = delivered_twice()
    (only,) = gate.switch(Mode(x=1))[:1]
    assert ([grad.id for grad in only.apply], only.go) == ([0], ())
