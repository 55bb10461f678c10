"""The model of shared machines against the slow one that it replaced (``tests/support/reference_*.py``), by chance."""

from __future__ import annotations

from functools import partial
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from injectors.plan import Kind
from runtime.virtual.clock import PLAN, Clock
from runtime.virtual.costs import Carry
from runtime.virtual.machines import machines as module
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from tests.support.long_tests import long_after
from tests.support.reference_sharing import Sharing
from tests.support.reference_tasks import TaskWork

NEAR = 1e-12
END_S = 1e5
"""Later than all ends."""
SCENARIOS = 20
"""At a time: the first are for every commit, the others are long."""
BLOCKS = long_after(range(20), always=1)

Found = dict[object, float]


def seeds(block: int) -> range:
    """Of one block of scenarios."""
    return range(SCENARIOS * block, SCENARIOS * (block + 1))


def near(expected: Found) -> Any:
    return pytest.approx(expected, rel=NEAR, abs=NEAR)


class Busy:
    """Tasks that work and send to each other, one thing after another, on machines that a plan disturbs."""

    def __init__(self, seed: int, clock: Clock | None = None) -> None:
        self.random, self.clock, self.found = Random(seed), clock or new_clock(), dict[object, float]()
        random = self.random
        hosts = [self.host(f"host:{number}") for number in range(random.randint(1, 6))]
        tasks = [f"worker:{number}" for number in range(random.randint(1, 6))]
        tasks += [f"server:{number}" for number in range(random.randint(1, 3))]
        sites = {task: random.choice(hosts) for task in tasks}
        self.hosts, self.tasks = [host.name for host in hosts], tasks
        numbers = range(len(hosts))
        self.routes = [f"link:{a}>{b}" for a in numbers for b in numbers if a != b and random.random() < 0.1]
        uses = {task: random.choice((1.0, 1.0, 2.0, 0.5)) for task in tasks}
        self.machines = ModelledMachines(self.clock, sites, self.routes, hosts, uses.__getitem__)

    def host(self, name: str) -> Site:
        random = self.random
        cores = random.choice((inf, 0.1, random.uniform(0.02, 0.5), random.uniform(0.5, 4)))
        return Site(name, cores, random.choice((inf, 1e6, random.uniform(1e5, 1e7))), random.choice((0.0, 0.001)))

    def run(self) -> Found:
        random = self.random
        for task in self.tasks:
            pieces = [random.choice((0.0, 0.01, random.expovariate(10))) for _ in range(random.randint(0, 15))]
            self.clock.at(random.choice((0.0, random.random())), PLAN, self.work, task, pieces)
            others = [other for other in self.tasks if other != task]
            for path in {(task, other) for other in random.sample(others, min(2, len(others)))}:
                sizes = [random.choice((0, 50_000, random.randint(1, 10**6))) for _ in range(random.randint(0, 10))]
                carry = Carry(*(random.choice((0.0, 0.002, random.uniform(0, 0.05))) for _ in range(3)))
                self.clock.at(random.random(), PLAN, self.send, path, sizes, carry)
        for _ in range(random.randint(0, 25)):
            self.clock.at(random.uniform(0, 5), PLAN, *random.choice((self.window, self.window, self.other))())
        self.clock.at(END_S, PLAN, self.note_all)
        while self.clock.next_s < inf:
            self.clock.step()
        return self.found

    def work(self, task: str, pieces: list[float]) -> None:
        self.found[task, "worked", len(pieces)] = self.clock.now
        if pieces:
            act = self.machines.work if len(pieces) % 3 else self.machines.compute
            act(task, pieces[-1], partial(self.work, task, pieces[:-1]))

    def send(self, path: tuple[str, str], sizes: list[int], carry: Carry) -> None:
        self.found[path, "sent", len(sizes)] = self.clock.now
        if sizes:
            now = carry if sizes[-1] else carry._replace(interrupt_s=0.0)
            self.machines.send(path[0], path, sizes[-1], 0.001, partial(self.send, path, sizes[:-1], carry), now)

    def window(self) -> tuple[Any, ...]:
        """Something is slower or stopped for a while, which may overlap with others."""
        random, numbers = self.random, range(len(self.hosts))
        links = [*(f"link:{number}" for number in numbers), *self.routes]
        kind, targets, level = random.choice(
            (
                ("cpu", [*self.tasks, *self.hosts], random.choice((0.0, 0.25, random.random()))),
                ("bandwidth", links, random.choice((0.1, random.random()))),
                ("cut", links[: len(self.hosts)], 1.0),
                ("pause", [*self.tasks, *self.hosts], 1.0),
            )
        )
        neutral = 0.0 if kind in ("cut", "pause") else 1.0
        return (self.change, random.choice(targets), kind, level, neutral, random.choice((0.01, random.expovariate(2))))

    def change(self, target: str, kind: Kind, level: float, neutral: float, seconds: float) -> None:
        self.machines.change(target, kind, level)
        self.clock.at(self.clock.now + seconds, PLAN, lambda: self.machines.change(target, kind, neutral))

    def other(self) -> tuple[Any, ...]:
        """A process is lost, or a task is given other cores and another rate, or what has been done is looked at."""
        random, task = self.random, self.random.choice(self.tasks)
        return random.choice(
            (
                (self.machines.forget, task),
                (self.machines.allot, task, random.choice((None, random.uniform(0.05, 2))), random.choice((None, 3e5))),
                (self.note_all,),
            )
        )

    def note_all(self) -> None:
        now = self.clock.now
        self.found |= {("cores", task, now): self.machines.core_seconds(task) for task in self.tasks}
        for host in self.hosts:
            self.found["out", host, now], self.found["in", host, now] = self.machines.bytes_of(host)


class Requesting(Busy):
    """Some tasks of hosts with so many cores have requests, which change."""

    def run(self) -> Found:
        random = Random(str(self.tasks))
        limited = [task for task in self.tasks if self.machines.sites[task].cores < inf]
        for _ in range(random.randint(0, 6) if limited else 0):
            task, cores = random.choice(limited), random.choice((None, 0.1, random.uniform(0.01, 1)))
            self.clock.at(random.choice((0.0, random.uniform(0, 3))), PLAN, self.machines.request, task, cores)
        return super().run()


def by_reference(kind: type[Busy], seed: int) -> Found:
    """What becomes of the same tasks on machines and a clock in Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "kernel", lambda: SimpleNamespace(Sharing=Sharing, TaskWork=TaskWork))
        return kind(seed, Clock()).run()


@pytest.mark.parametrize("kind", [Busy, Requesting])
@pytest.mark.parametrize("block", BLOCKS)
def test_tasks_take_as_long_as_in_the_reference(block: int, kind: type[Busy]) -> None:
    for seed in seeds(block):
        assert kind(seed).run() == near(by_reference(kind, seed)), seed


def test_requests_change_something() -> None:
    assert any(Requesting(seed).run() != Busy(seed).run() for seed in range(20))
