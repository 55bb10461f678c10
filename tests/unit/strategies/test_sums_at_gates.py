"""Gates that change their mode, and at which sums of gradients arrive: each counts as its members.

Answers without sums: ``test_gates.py``.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.parts.gates import AllGate, Gate, Verdict
from strategies.protocol import Grad
from strategies.star.modal import SSGD, ModalGate, Mode
from tests.support.grads import make_grad

THIRDS = ((0, 1, 2), (3, 4), (5,))


class Crowd:
    """Workers at a gate: they compute when they may, and deliver, restart or leave at random."""

    def __init__(self, gate: Gate, num_workers: int) -> None:
        self.gate, self.version, self.count = gate, 0, 0
        self.busy = dict[int, int]()
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
        self.carry_out(self.gate.arrived(make_grad(worker, id=number)))


def in_mode(mode: Mode) -> ModalGate:
    gate = ModalGate()
    gate.mode = mode
    return gate


def sum_of(workers: tuple[int, ...], number: int) -> Grad:
    members = tuple(1000 * number + place for place, _ in enumerate(workers))
    return make_grad(workers[0], len(workers), id=number, members=members)


class Summing(Crowd):
    """A crowd some of whom deliver together; ``updates`` are the workers of every update."""

    def __init__(self, gate: Any, num_workers: int) -> None:
        self.workers_of = dict[int, tuple[int, ...]]()
        self.updates = list[list[int]]()
        super().__init__(gate, num_workers)

    def carry_out(self, verdict: Verdict) -> None:
        super().carry_out(verdict)
        found = [self.workers_of.get(grad.id, (grad.worker,)) for grad in verdict.apply]
        self.updates += [sorted(worker for workers in found for worker in workers)] if found else []

    def deliver_sum(self, workers: tuple[int, ...]) -> None:
        numbers = [self.busy.pop(worker) for worker in workers]
        self.workers_of[numbers[0]] = workers
        self.delivered.append(numbers[0])
        gate: Any = self.gate
        self.carry_out(gate.sum_arrived(sum_of(workers, numbers[0]), workers))
        for verdict in gate.completed():
            self.carry_out(verdict)


@pytest.mark.parametrize("mode", [None, SSGD, Mode(groups=THIRDS)], ids=["all", "ssgd", "groups"])
@given(seed=st.integers(0, 10_000))
def test_a_sum_is_as_good_as_its_members(mode: Mode | None, seed: int) -> None:
    """Where a round is one of known workers, the same updates result as if each had sent by itself."""
    draw = random.Random(seed)
    gates: list[Gate] = [AllGate() if mode is None else in_mode(mode) for _ in range(2)]
    one, other = Summing(gates[0], 6), Summing(gates[1], 6)
    for _ in range(15):
        group = draw.choice(THIRDS if mode is not None and mode.groups else [tuple(range(6))])
        here = [worker for worker in group if worker in one.busy]
        together = tuple(draw.sample(here, draw.randint(1, len(here))))
        if len(together) > 1:
            one.deliver_sum(together)
        else:
            one.deliver(together[0])
        for worker in together:
            other.deliver(worker)
        assert (one.updates, sorted(one.busy)) == (other.updates, sorted(other.busy))


def test_who_is_in_a_sum_of_another_group_computes_when_that_is_applied() -> None:
    """As before, but 1 still computes: nobody is left for whom 3 could wait, and 2 waits with 0 for 1."""
    gate = ModalGate()
    crowd = Summing(gate, 4)
    crowd.deliver(3)
    gate.switch(Mode(groups=((0, 1), (2, 3))))
    crowd.deliver_sum((0, 2))
    assert (crowd.updates, sorted(crowd.busy)) == ([[3]], [1, 3])
    crowd.deliver(1)
    assert (crowd.updates[-1], sorted(crowd.busy)) == ([0, 1, 2], [0, 1, 2, 3])


def test_who_left_and_delivered_again_waits_although_an_old_sum_is_applied() -> None:
    gate = ModalGate()
    crowd = Summing(gate, 4)
    crowd.deliver_sum((1, 2))
    crowd.carry_out(gate.lost(2, restarting=False))
    crowd.carry_out(gate.joined(2))
    crowd.deliver(2)
    (first, *_) = gate.switch(Mode(x=2))
    assert (first.go, [grad.worker for grad in gate.at.buffer.values()]) == ((1,), [2])
