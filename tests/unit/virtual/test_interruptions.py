"""Messages between hosts interrupt all other tasks on any host: by worked numbers, and on average by a closed form."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Carry
from tests.unit.virtual.test_virtual_hosts import Lab, on_hosts

pytestmark = pytest.mark.usefixtures("even_quotas")
MB = 1_000_000
AWAY = ("worker:0", "server:0")
"""Between hosts."""


class Busy(Lab):
    """Two workers and two servers: those that end in 0 have a host each, those that end in 1 share the third."""

    def __init__(self, cores: float = inf) -> None:
        super().__init__(on_hosts({"worker:0": 0, "server:0": 1, "worker:1": 2, "server:1": 2}, cores))
        self.ends: list[float] = []

    def keep_working(self, *pieces: float) -> None:
        """Worker 1, one piece after another; when each ended is noted."""

        def ended() -> None:
            self.ends.append(self.clock.now)
            self.keep_working(*pieces[1:])

        if pieces:
            self.machines.work("worker:1", pieces[0], ended)

    def interrupt(self, t: float, path: tuple[str, str], seconds: float) -> None:
        self.at(t, self.machines.send, path[0], path, MB, 0.0, lambda: None, Carry(0.0, 0.0, seconds))


def test_what_is_sent_while_a_task_works_makes_its_next_work_longer() -> None:
    lab = Busy()
    lab.keep_working(1.0, 1.0, 1.0)
    lab.interrupt(0.5, AWAY, 0.25)
    lab.run()
    assert lab.ends == pytest.approx([1.0, 2.25, 3.25])
    charged = [lab.machines.task_work.charged_s(task) for task in ("worker:1", "worker:0")]
    assert charged == pytest.approx([0.25, 0.0]), "its own messages are no interruption"


@pytest.mark.parametrize("per_s", [100.0, 400.0])
def test_on_average_work_takes_as_much_longer_as_time_is_interrupted(per_s: float) -> None:
    """Messages at random times that interrupt for a part f of the time: c core-seconds are charged as c / (1 - f)."""
    lab, random, interrupt_s, piece_s = Busy(cores=0.4), Random(7), 6e-4, 3e-3
    sent = 0

    def again() -> None:
        nonlocal sent
        sent += 1
        lab.machines.send(AWAY[0], AWAY, MB, 0.0, lambda: None, Carry(0.0, 0.0, interrupt_s))
        lab.clock.at(lab.clock.now + random.expovariate(per_s), MACHINE, again)

    def work() -> None:
        lab.ends.append(lab.clock.now)
        lab.machines.work("worker:1", piece_s, work)

    work()
    again()
    while lab.clock.next_s < 50.0:
        lab.clock.step()
    pieces = len(lab.ends) - 1
    assert pieces == pytest.approx(50.0 * 0.4 / piece_s * (1 - interrupt_s * sent / 50.0), rel=0.002)
