"""MLfabric as a strategy: the slides' worked order through Ready, Send and Arrived, and what must hold of any job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from strategies.mlfabric import MLfabric
from strategies.mlfabric.fluid import fair_rates
from strategies.protocol import (
    Apply,
    Arrived,
    Compute,
    Drop,
    Grad,
    Ready,
    Restored,
    Send,
    Started,
    Timings,
    Wake,
    Woke,
)
from tests.support.faults import random_seconds, restarts
from tests.support.harness import HeapRun, make_job
from tests.support.laws import played, unaveraged, unconserved, unlawful
from tests.support.long_tests import long_after

MB = 1_000_000
A, B, C, D, FIRST = range(5)
VERSIONS = {A: 9, B: 8, C: 10, D: 7, FIRST: 9}
"""At version 10 and with ``tau_max`` 4 the deadlines of A, B, C and D are 3, 2, 4 and 1."""


class World:
    """Gradients of these sizes (MB) become ready at 0, over uplinks of so many MB/s and 100 MB/s into the server.

    A gradient without bytes is on its way meanwhile, so that one plan is made for the others."""

    def __init__(self, sizes: Mapping[int, int], uplinks: Mapping[int, float] | None = None, **settings: Any) -> None:
        bound = {"tau_max": 4} if settings.get("order", "deadlines") == "deadlines" else {}
        self.strategy = MLfabric(**{**bound, **settings})
        self.sizes = {FIRST: 0, **sizes}
        self.rates = {worker: MB * min(100.0, (uplinks or {}).get(worker, 100.0)) for worker in self.sizes}
        links = {f"worker:{worker}": rate for worker, rate in self.rates.items()} | {"server:0": 100.0 * MB}
        workers = tuple(self.sizes)
        begin = Started(t=0.0, workers=workers, batch_samples=(1,) * len(workers), num_servers=1, links=links)
        self.strategy.handle(begin)
        self.strategy.handle(Restored(t=0.0, version=9, workers=workers))
        self.version, self.t = 9, 0.0
        self.left: dict[int, float] = {}
        """Bytes of what travels."""
        self.commits: list[tuple[int, float]] = []
        self.delays: list[int] = []
        self.dropped: list[int] = []
        self.again: list[int] = []
        self.wakes: list[tuple[float, str]] = []

    def grad(self, worker: int) -> Grad:
        about = {"incarnation": 0, "iteration": 0, "samples": 1, "assigned_samples": 1}
        return Grad(id=worker, worker=worker, version=VERSIONS[worker], **about)

    def obey(self, commands: Any) -> None:
        for command in commands:
            match command:
                case Send(grads=(worker,)):
                    self.left[worker] = self.sizes[worker] * MB
                case Drop(grads=grads):
                    self.dropped += grads
                case Apply(grads=(worker,)):
                    self.commits.append((worker, self.t))
                    self.delays.append(self.version - VERSIONS[worker])
                    self.version += 1
                case Compute():
                    self.again.append(command.worker)
                case Wake():
                    self.wakes.append((command.at_s, command.tag))

    def ready(self, worker: int) -> None:
        num_bytes = self.sizes[worker] * MB
        self.obey(self.strategy.handle(Ready(t=self.t, grad=self.grad(worker), timings=Timings(), num_bytes=num_bytes)))

    def arrive(self, worker: int, send_s: float) -> None:
        del self.left[worker]
        timings = Timings(send_s=send_s)
        self.obey(self.strategy.handle(Arrived(t=self.t, grad=self.grad(worker), timings=timings)))

    def run(self) -> World:
        """To the end; what travels at the same time has max-min fair shares."""
        for worker in self.sizes if self.strategy.order == "fair" else [FIRST, *self.sizes]:
            if worker not in self.left or worker != FIRST:
                self.ready(worker)
        self.arrive(FIRST, 0.0)
        since = dict.fromkeys(self.left, self.t)
        while self.left:
            paths = [(f"worker:{worker}", "servers") for worker in self.left]
            capacity = {f"worker:{worker}": self.rates[worker] for worker in self.left} | {"servers": 100.0 * MB}
            rates = dict(zip(self.left, fair_rates(paths, capacity), strict=True))
            worker = min(self.left, key=lambda one: (self.left[one] / rates[one], one))
            passed_s = self.left[worker] / rates[worker]
            self.t += passed_s
            self.left = {one: left - passed_s * rates[one] for one, left in self.left.items()}
            self.arrive(worker, self.t - since[worker])
            since.update({one: self.t for one in self.left if one not in since})
        return self


MIXED = {A: 50, B: 80, C: 100, D: 120}
EVEN = dict.fromkeys((A, B, C, D), 100)
SLIDES: dict[str, tuple[dict[int, int], dict[str, Any], dict[int, float], list[int], list[int]]] = {
    "7, a fair network is late for all, 2.925 s on average and not 1.9": (
        *(MIXED, {"order": "fair"}),
        *({A: 2.0, B: 2.9, C: 3.3, D: 3.5}, [1, 3, 2, 6], []),
    ),
    "11, shortest first: D is late by 6": (
        *(MIXED, {"order": "shortest"}),
        *({A: 0.5, B: 1.3, C: 2.3, D: 3.5}, [1, 3, 2, 6], []),
    ),
    "12, deadlines first: none is late by more than 4": (
        *(MIXED, {}),
        *({A: 0.5, D: 1.7, B: 2.5, C: 3.5}, [1, 4, 4, 3], []),
    ),
    "13, slot 1 is D's, 5 s over its uplink, while B could commit at 2": (
        *(EVEN, {"uplinks": {D: 25.0}}),
        *({A: 1.0, B: 2.0, C: 3.0}, [1, 3, 2], [D]),
    ),
}
"""By number: sizes and settings; who commits when, with which delays, and who is dropped."""


@pytest.mark.parametrize("slide", SLIDES)
def test_the_worked_orders(slide: str) -> None:
    """Slides 7 and 11 to 13; whoever was applied or dropped computes again."""
    sizes, settings, commits, delays, dropped = SLIDES[slide]
    world = World(sizes, **settings).run()
    assert world.commits[1:] == [(worker, pytest.approx(t)) for worker, t in commits.items()]
    assert (world.delays[1:], world.dropped) == (delays, dropped)
    assert {A, B, C, D, FIRST} <= set(world.again)


def held_up(**settings: Any) -> World:
    """A, B and C of 100 MB wait: the first of them should take 1 s, and nothing of it arrives."""
    return waiting(World(dict.fromkeys((A, B, C), 100), **settings))


def waiting(world: World) -> World:
    for worker in (FIRST, *(one for one in world.sizes if one != FIRST)):
        world.ready(worker)
    world.arrive(FIRST, 0.0)
    if world.wakes:  # it should have been there at once
        assert world.wakes == [(0.05, "overdue")]
        wake(world, 0.05)
    return world


def wake(world: World, t: float) -> None:
    world.t = t
    world.obey(world.strategy.handle(Woke(t=t, tag="overdue")))


def test_who_is_overdue_holds_nobody_up() -> None:
    """Departure: after 4 of its planned seconds A leaves the order; B and C are sent and applied before it."""
    world = held_up()
    assert (list(world.left), world.wakes[1:]) == ([A], [(4.0, "overdue")])
    wake(world, 3.9)
    assert list(world.left) == [A]
    wake(world, 4.0)
    assert list(world.left) == [A, B]
    world.t = 5.0
    world.arrive(B, 1.0)
    world.t = 5.5
    world.arrive(A, 5.5)  # C is on its way, and its delay allows one more before it
    assert world.commits[1:] == [(B, 5.0), (A, 5.5)]
    assert world.delays[1:] == [2, 2]
    world.t = 6.0
    world.arrive(C, 1.0)
    assert (world.commits[-1], world.delays[-1], world.dropped) == ((C, 6.0), 2, [])


@pytest.mark.parametrize(("tau_max", "late", "applied"), [(4, A, True), (3, A, True), (2, B, False)])
def test_who_arrives_too_late_for_the_bound_is_dropped(tau_max: int, late: int, applied: bool) -> None:
    """Departure: A and B have read versions 9 and 8; after the two others their delays are 3 and 4."""
    world = held_up(tau_max=tau_max, idle_tolerance_s=math.inf)
    assert list(world.left) == [late]
    wake(world, 4.0)
    for worker in [one for one in (A, B, C) if one != late]:
        world.t += 1.0
        world.arrive(worker, 1.0)
    world.arrive(late, 9.0)
    assert ((late in world.dropped), world.commits[-1][0] == late) == (not applied, applied)
    assert max(world.delays) <= tau_max
    assert world.again.count(late) == 1


def test_a_late_one_makes_nobody_else_too_late() -> None:
    """Departure: D and B, which have read versions 7 and 8, must be applied at 11 and 12; A has time until 13."""
    world = waiting(World({A: 50, B: 80, D: 120}, tau_max=4))
    wake(world, 2.0)  # A is overdue, D on its way
    assert list(world.left) == [A, D]
    world.version = world.strategy.parts.gate._version = 11
    world.arrive(A, 3.0)
    assert [worker for worker, _ in world.commits] == [FIRST]
    world.arrive(D, 1.0)
    world.arrive(B, 1.0)
    assert ([worker for worker, _ in world.commits[1:]], world.delays[1:]) == ([D, B, A], [4, 4, 4])


@pytest.mark.parametrize(("parallel_sends", "sent"), [(1, [A]), (2, [A, B]), (3, [A, B, C]), (9, [A, B, C])])
def test_as_many_travel_at_a_time_as_wanted(parallel_sends: int, sent: list[int]) -> None:
    """Departure: in the slides one; updates are applied in the same order in any case."""
    world = held_up(parallel_sends=parallel_sends)
    assert list(world.left) == sent
    world = World(MIXED, parallel_sends=parallel_sends).run()
    assert [worker for worker, _ in world.commits[1:]] == [A, D, B, C]
    assert max(world.delays) <= 4


def test_what_shares_a_link_is_overdue_later() -> None:
    """Departure: two at a time should take twice as long; the first was alone when it was sent."""
    world = waiting(World(EVEN, parallel_sends=2))
    wake(world, 4.0)
    assert (list(world.left), world.wakes[-1]) == ([A, D, B], (8.0, "overdue"))


def job_of(strategy: MLfabric, seed: int, num_workers: int = 5) -> HeapRun:
    job = make_job(
        num_workers=num_workers,
        num_samples=90,
        global_batch_samples=2 * num_workers,
        epochs=3,
        max_time_s=2000.0,
        checkpoint_every_s=5.0,
        seed=seed,
    )
    run = HeapRun(strategy, job, random_seconds(seed), restarts(seed, num_workers))
    run.send_s = 0.9
    return run


@pytest.mark.parametrize("window_s", long_after([None, 1.5, 0.0], always=2))
@pytest.mark.parametrize("tau_max", long_after([None, 4, 6], always=2))
def test_no_applied_update_is_later_than_the_bound(tau_max: int | None, window_s: float | None) -> None:
    """Slide 12's guarantee, with transfers that take longer than planned, lost workers and servers."""
    for seed in range(3):
        run = job_of(MLfabric(tau_max=tau_max, window_s=window_s, parallel_sends=1 + seed % 2), seed)
        assert played(run) == unlawful(run) == unconserved(run) == []
        assert max(run.staleness) <= (tau_max or 10)


@pytest.mark.parametrize("num_aggregators", [1, 2])
def test_members_of_sums_are_not_later_either(num_aggregators: int) -> None:
    """Slide 14: a group is one update, so that its members come earlier than alone; whoever is lost meanwhile."""
    sums = 0
    for seed in range(4):
        strategy = MLfabric(tau_max=7, num_aggregators=num_aggregators, lr_rule="batch_linear")
        run = job_of(strategy, seed, num_workers=8)
        assert played(run) == unlawful(run) == unconserved(run) == unaveraged(run) == []
        assert max(run.staleness) <= 7
        sums += len(run.sums)
    assert sums > 10


def test_sums_and_bounds_that_cannot_be_are_refused() -> None:
    """Slide 14 with slide 6: a rate that depends on the delay cannot be that of several gradients. Beyond the
    paper: 7 others are applied while one of 8 computes."""
    with pytest.raises(ValueError, match="num_aggregators=1: lr_rule=adadelay weights each gradient by its delay"):
        MLfabric(num_aggregators=1)
    with pytest.raises(ValueError, match="num_aggregators=1: needs an order; order=fair plans nothing"):
        MLfabric(num_aggregators=1, lr_rule="batch_linear", order="fair")
    with pytest.raises(ValueError, match=r"tau_max=6: while one of 8 workers computes, 7 updates of others"):
        MLfabric(tau_max=6).validate(8)
    MLfabric(tau_max=7).validate(8)


def test_the_worst_case_scales_what_no_arrival_completes() -> None:
    """Slide 6: B has arrived and waits for A, whose place is gone when a timer says that A is overdue."""
    world = held_up(parallel_sends=2, lr_rule="worst_case")
    world.t = 2.0
    world.arrive(B, 2.0)
    assert [worker for worker, _ in world.commits] == [FIRST]
    commands = world.strategy.handle(Woke(t=4.0, tag="overdue"))
    scales = [(command.grads, command.lr_scale) for command in commands if isinstance(command, Apply)]
    assert scales == [((B,), pytest.approx(1 / 4 / 2))]
