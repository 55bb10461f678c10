"""Messages between hosts interrupt all other tasks on any host: by worked numbers, and on average by a closed form."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from runtime.virtual.clock import MACHINE, PLAN, Clock
from runtime.virtual.costs import Carry, Costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site

pytestmark = pytest.mark.usefixtures("even_quotas")
MB = 1_000_000
AWAY, NEAR = ("worker:0", "server:0"), ("worker:1", "server:1")
"""Between hosts, and within one."""


class Lab:
    """Two workers and two servers: those that end in 0 have a host each, those that end in 1 share the third."""

    def __init__(self, clock: Clock, cores: float = inf, link_bytes_per_s: float = inf) -> None:
        self.clock = clock
        hosts = [Site(f"host:{number}", cores, link_bytes_per_s, 0.0) for number in range(3)]
        homes = {"worker:0": hosts[0], "server:0": hosts[1], "worker:1": hosts[2], "server:1": hosts[2]}
        self.machines = ModelledMachines(clock, homes)
        self.ended: list[float] = []

    def work(self, task: str, *pieces: float) -> None:
        """One piece after another; when each ended is noted."""

        def ended() -> None:
            self.ended.append(self.clock.now)
            self.work(task, *pieces[1:])

        if pieces:
            self.machines.work(task, pieces[0], ended)

    def send(self, t: float, path: tuple[str, str], interrupt_s: float, carry_s: float = 0.0) -> None:
        carry = Carry(carry_s, carry_s, interrupt_s)
        self.clock.at(t, PLAN, lambda: self.machines.send(path[0], path, MB, 0.0, lambda: None, carry))

    def run(self, until_s: float = inf) -> list[float]:
        while self.clock.next_s < until_s:
            self.clock.step()
        return self.ended


@pytest.fixture
def clock() -> Clock:
    return new_clock()


def test_what_is_sent_while_a_task_works_makes_its_next_work_longer(clock: Clock) -> None:
    lab = Lab(clock)
    lab.work("worker:1", 1.0, 1.0, 1.0)
    lab.send(0.5, AWAY, 0.25)
    assert lab.run() == pytest.approx([1.0, 2.25, 3.25])
    charged = [lab.machines.task_work.charged_s(task) for task in ("worker:1", "worker:0")]
    assert charged == pytest.approx([0.25, 0.0]), "its own messages are no interruption"


def test_it_is_charged_for_the_part_of_the_time_in_which_it_has_a_core(clock: Clock) -> None:
    """Half of a core: a quarter of a second of interruptions hits it for an eighth, which takes it another quarter."""
    lab = Lab(clock, cores=0.5)
    lab.work("worker:1", 1.0, 1.0)
    lab.send(0.5, AWAY, 0.25)
    assert lab.run() == pytest.approx([2.0, 4.25])
    assert lab.machines.core_seconds("worker:1") == pytest.approx(2.125), "it counts as what it has used"


def test_a_message_within_a_host_and_one_while_nobody_works_interrupt_nobody(clock: Clock) -> None:
    lab = Lab(clock)
    lab.send(0.0, AWAY, 0.25)
    lab.clock.at(0.5, PLAN, lab.work, "worker:1", 1.0, 1.0)
    lab.send(0.75, NEAR, 0.25)
    assert lab.run() == pytest.approx([1.5, 2.5])


@pytest.mark.parametrize("per_s", [100.0, 400.0])
def test_on_average_work_takes_as_much_longer_as_time_is_interrupted(clock: Clock, per_s: float) -> None:
    """Messages at random times that interrupt for a part f of the time: c core-seconds are charged as c / (1 - f)."""
    lab, random, interrupt_s, piece_s = Lab(clock, cores=0.4), Random(7), 6e-4, 3e-3
    sent = 0

    def again() -> None:
        nonlocal sent
        sent += 1
        lab.machines.send(AWAY[0], AWAY, MB, 0.0, lambda: None, Carry(0.0, 0.0, interrupt_s))
        clock.at(clock.now + random.expovariate(per_s), MACHINE, again)

    def work() -> None:
        lab.ended.append(clock.now)
        lab.machines.work("worker:1", piece_s, work)

    work()
    again()
    pieces = len(lab.run(until_s=50.0)) - 1
    assert pieces == pytest.approx(50.0 * 0.4 / piece_s * (1 - interrupt_s * sent / 50.0), rel=0.002)


def test_the_cost_model_says_for_how_long_a_message_interrupts() -> None:
    costs = Costs(carry_per_byte_s=3e-9, carry_within_per_byte_s=1e-9, interrupt_per_byte_s=2e-9)
    assert costs.carry_s(MB) == pytest.approx((3e-3, 1e-3, 2e-3))
    assert Costs(carry_per_byte_s=3e-9).carry_s(MB) == pytest.approx((3e-3, 3e-3, 0.0))
