"""Gates by their sentences (tests/support/reference_rounds.py) while workers come, go and restart; sums at gates."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.basic.first_fresh import FirstFreshGate
from strategies.basic.static_x import ExactlyGate
from strategies.lgc.delayed import BlocksGate, DelayedGate
from strategies.parts.gates import AllGate, BoundedGate, EachGate, Gate, GroupsGate, Verdict
from strategies.parts.gates.base import NOTHING
from strategies.protocol import Failed, Grad, Started
from strategies.star.modal import ASGD, SSGD, ModalGate, Mode
from tests.support import reference_rounds as text
from tests.support.examples import examples
from tests.support.grads import make_grad
from tests.support.scanning import ScanningModal

G = TypeVar("G", bound=Gate)


def opened(gate: G, workers: Collection[int], version: int = 0) -> G:
    """A gate that has begun with these workers."""
    if hasattr(gate, "start"):
        gate.start(Started(t=0.0, workers=tuple(workers), batch_samples=(1,) * len(workers), num_servers=1))
    gate.begin(workers, version)
    return gate


def grad(worker: int, version: int = 0, samples: int = 1, number: int | None = None) -> Grad:
    """A gradient of a worker; tests tell gradients apart by worker and version."""
    number = 100 * version + worker if number is None else number
    return make_grad(worker, samples, id=number, version=version, assigned_samples=1)


def applied(verdict: Verdict) -> list[int]:
    """Whose gradients form the update."""
    return [one.worker for one in verdict.apply]


Draw = Callable[[int, int], int]
CASES: dict[str, Callable[[Draw, int], tuple[Any, Any]]] = {
    "all": lambda draw, n: (AllGate(), text.every()),
    "each": lambda draw, n: (EachGate(), text.each()),
    "bounded": lambda draw, n: (BoundedGate(bound=(s := draw(0, 3))), text.Bounded(s)),
    "first_fresh": lambda draw, n: (FirstFreshGate(k=(k := draw(1, n))), text.first(k)),
    "exactly": lambda draw, n: (ExactlyGate(x=(x := draw(1, n))), text.exactly(x)),
    "delayed": lambda draw, n: (
        DelayedGate(k_fastest=(k := draw(1, n)), max_delay_versions=(d := draw(0, 2)), late_begin="next_update"),
        text.delayed(k, d),
    ),
    "blocks": lambda draw, n: (
        BlocksGate(k_fastest=(k := draw(1, n)), max_delay_versions=(d := draw(0, 2)), blocks=(m := draw(1, 3))),
        text.blocks(k, d, m),
    ),
    "groups": lambda draw, n: (GroupsGate(), text.Groups()),
    "modes": lambda draw, n: (ModalGate(), ScanningModal()),
}
MODES = [SSGD, ASGD, Mode(x=2), Mode(x=5), Mode(groups=((0, 1), (2, 3, 4), (5,))), Mode(groups=((5, 8), (0,)))]


class Story:
    """The same things happen to a gate and to its text; what is possible follows from the orders that it gave."""

    def __init__(self, gate: Any, rule: Any, num_workers: int, draw: random.Random) -> None:
        self.gate, self.rule, self.draw = gate, rule, draw
        self.version = self.number = 0
        self.alive, self.away = set(range(num_workers)), set[int]()
        opened(gate, range(num_workers))
        rule.begin(range(num_workers), 0)
        self.orders = dict.fromkeys(self.alive, 0)

    def happens(self) -> list[Any]:
        """Something that may; returns what the two say."""
        draw, running = self.draw, sorted(self.alive & self.orders.keys())
        kinds = ["arrived"] * 12 * bool(running) + ["lost", "left", "gone"] * bool(self.alive) + ["back"] * 3 + ["new"]
        kinds += ["restored", "stranger"] + ["changed"] * 3 * isinstance(self.gate, GroupsGate | ModalGate)
        kind = draw.choice(kinds)
        match kind:
            case "arrived":
                worker = draw.choice(running)
                self.number += 1
                one = grad(worker, self.orders.pop(worker), draw.choice([1, 1, 1, 0]), self.number)
                return self.ask("arrived", one)
            case "lost" | "left":
                worker = draw.choice(sorted(self.alive))
                self.alive.discard(worker)
                self.orders.pop(worker, None)
                if kind == "lost":
                    self.away.add(worker)
                return self.ask("lost", worker, kind == "lost")
            case "gone" | "back" if self.away:
                worker = draw.choice(sorted(self.away))
                self.away.discard(worker)
                if kind == "gone":
                    self.orders.pop(worker, None)
                    return self.ask("lost", worker, False)
                self.alive.add(worker)
                return self.ask("joined", worker)
            case "new":
                worker = draw.choice(sorted({*range(8)} - self.alive - self.away) or [max(self.alive | self.away) + 1])
                self.alive.add(worker)
                return self.ask("joined", worker)
            case "restored":
                self.away.clear()
                self.version = draw.randint(0, self.version)
                self.orders = dict.fromkeys(self.alive, self.version)
                workers = draw.sample(sorted(self.alive), len(self.alive))
                return [one.begin(workers, self.version) for one in (self.gate, self.rule)]
            case "stranger":
                return self.ask("lost", 99, False)
            case "changed":
                return self.change()
        return [None, None]

    def change(self) -> list[Any]:
        """Another mode, or other groups."""
        if isinstance(self.gate, ModalGate):
            return self.ask("switch", self.draw.choice(MODES))
        dealt = {worker: self.draw.randrange(3) for worker in sorted(self.rule.members)}
        groups = [[worker for worker in dealt if dealt[worker] == place] for place in range(3)]
        return self.ask("regroup", [group for group in groups if group])

    def ask(self, name: str, *about: Any) -> list[Any]:
        return self.heard([getattr(self.gate, name)(*about), getattr(self.rule, name)(*about)])

    def heard(self, answers: list[Any]) -> list[Any]:
        for verdict in answers[0] if isinstance(answers[0], list) else answers[:1]:
            self.version += any(one.samples for one in verdict.apply)
            self.orders |= dict.fromkeys(verdict.go, self.version)
        return answers


def differing(name: str, seed: int, rule: Any = None) -> str:
    """Where a gate parts from its text; empty if it does not."""
    draw = random.Random(f"{name} {seed}")
    num_workers = draw.randint(1, 5)
    gate, text_of_it = CASES[name](draw.randint, num_workers)
    story = Story(gate, rule or text_of_it, num_workers, draw)
    for _ in range(80):
        says, should = story.happens()
        if says != should:
            return f"{says} is not {should}"
        if gate.log_state() != story.rule.log_state():
            return f"{gate.log_state()} is not {story.rule.log_state()}"
    return ""


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_a_gate_answers_as_its_text_says(name: str, seed: int) -> None:
    assert differing(name, seed) == ""


@pytest.mark.parametrize(
    ("name", "other"),
    [("all", text.each()), ("first_fresh", text.every()), ("exactly", text.first(2)), ("bounded", text.Bounded(7))],
)
def test_another_text_is_noticed(name: str, other: Any) -> None:
    """Negative control: the sentences of another gate are not those of this one."""
    assert any(differing(name, seed, other) for seed in range(9))


def test_who_has_failed_and_computes_again_is_waited_for() -> None:
    """Its next gradient is fresh, so two of three can still be."""
    gate = opened(DelayedGate(k_fastest=2, max_delay_versions=1), range(3))
    gate.arrived(grad(0))
    gate.arrived(grad(1))
    gate.observe_event(Failed(t=1.0, worker=2, reason="gradient is not finite"))
    assert gate.arrived(grad(0, 1)) == NOTHING
    assert gate.lost(1, False) == NOTHING
    assert applied(gate.arrived(grad(2, 1))) == [0, 2]


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
@examples(20)
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
