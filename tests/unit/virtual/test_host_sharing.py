"""Several jobs on shared hosts, one of which reserves more: who is limited, for how long, and what that does to all."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core import host_sharing
from runtime.virtual.clock import TIMER
from runtime.virtual.machines.kernel import new_clock
from strategies.basic.bsp import BSP
from strategies.cluster.prevention.star import StarPrevention
from strategies.protocol import Asked, Demand, Grant, Reserve, Restart, Share, Stop
from tests.support.neighbours import Neighbours, Saying

MORE = Reserve(demands=(Demand(node="server:0", cpu_cores=0.5),), worth_s=9.0)
NOTHING = Reserve()


class Always:
    """Limits worker 0 of job b to a half of a core, whoever asks; keeps what it was asked."""

    takes = True

    def __init__(self, cores: float = 0.5) -> None:
        self.cores = cores
        self.asked: list[Asked] = []

    def answer(self, asked: Asked) -> Grant:
        self.asked.append(asked)
        shares = {
            ("a", "server:0"): Share(node="server:0", cpu_cores=self.cores),
            ("b", "worker:0"): Share(node="worker:0", cpu_cores=0.5),
        }
        return Grant(ok=True, shares=shares)


def assert_computing(lab: Neighbours, took_s: float, begin_s: float, end_s: float, *, least: int) -> None:
    """Iterations of worker 0 of job b within this time take as long; quotas of 10 ms let a little through."""
    found = [seconds for at_s, seconds in lab.tapes["b"].computing("worker:0") if begin_s < at_s < end_s]
    assert len(found) >= least
    assert found == pytest.approx([took_s] * len(found), abs=0.011)


def test_a_limited_worker_computes_with_what_it_is_left() -> None:
    """0.1 core-seconds take 0.1 s, and 0.2 s from second 2 to second 4."""
    lab = Neighbours(prevention=Always())
    lab.add("a", Saying({2.0: MORE, 4.0: NOTHING}))
    lab.add("b", BSP())
    lab.run()
    for took, begin_s, end_s in ((0.1, 0.0, 2.0), (0.2, 2.25, 4.0), (0.1, 4.25, 6.0)):
        assert_computing(lab, took, begin_s, end_s, least=7)
    assert [note["cpu_cores"] for _, note in lab.tapes["b"].noted("Limited")] == [0.5, None]


@pytest.mark.parametrize("ends", [4.0, None])
def test_the_end_of_the_job_gives_back(ends: float | None) -> None:
    """By ``Stop``, or by itself at 3 s, which nobody else's job is."""
    lab = Neighbours(prevention=Always())
    lab.add(
        "a", Saying({2.0: MORE, **({ends: Stop(reason="enough")} if ends else {})}), max_time_s=3.0 if not ends else 9
    )
    lab.add("b", BSP())
    lab.run()
    (_, begin), (end_s, end) = lab.tapes["b"].noted("Limited")
    assert (begin["cpu_cores"], end["cpu_cores"]) == (0.5, None)
    assert end_s == pytest.approx(4.0 if ends else 3.0, abs=1e-3)
    assert [kind for kind, _ in lab.notes] == ["Reserved", "Released"]


def test_a_job_that_was_preempted_comes_back_without_limits() -> None:
    """It is away from 3 to 5 s; what a had reserved of its host is a's matter when it asks again."""
    lab = Neighbours(prevention=Always())
    lab.add("a", Saying({2.0: MORE}), max_time_s=9.0)
    lab.add("b", BSP())
    clock, left = new_clock(lab.lab.timeline), list[float]()
    clock.at(3.0, TIMER, lambda: lab.lab.preempt("b", 9.0, lambda: left.append(clock.timeline.moment[0])))
    clock.at(5.0, TIMER, lambda: lab.lab.resume("b", {"server:0": 0, "worker:0": 0, "worker:1": 1}))
    lab.run()
    assert left[0] == pytest.approx(3.1, abs=0.11)
    assert_computing(lab, 0.2, 2.25, 3.0, least=1)
    assert not [at_s for at_s, _ in lab.tapes["b"].computing("worker:0") if left[0] < at_s < 5.0]
    assert_computing(lab, 0.1, 5.15, 99.0, least=21)
    assert [note["cpu_cores"] for _, note in lab.tapes["b"].noted("Limited")] == [0.5, None]


def test_a_limited_worker_that_starts_again_elsewhere_leaves_its_limit() -> None:
    """What a has reserved is of host 0; from second 3 on the worker of b is on host 1, with room for all."""
    lab = Neighbours(prevention=Always(), cores=4.0)
    lab.add("a", Saying({2.0: MORE}))
    lab.add("b", Saying({3.0: Restart(node="worker:0")}))
    lab.run()
    (_, begin), (end_s, end) = lab.tapes["b"].noted("Limited")
    assert (begin["cpu_cores"], end["cpu_cores"], end_s) == (0.5, None, pytest.approx(3.0, abs=1e-3))
    for took, begin_s, until_s in ((0.2, 2.25, 3.0), (0.1, 3.25, 6.0)):
        assert_computing(lab, took, begin_s, until_s, least=3)


def test_a_policy_learns_what_jobs_need() -> None:
    """The worker of b uses one core for 0.1 s of an iteration, a's server next to nothing."""
    policy = Always()
    lab = Neighbours(prevention=policy)
    lab.add("a", Saying({2.0: MORE}))
    lab.add("b", BSP(), model="vgg16")
    lab.run()
    (asked,) = policy.asked
    assert (asked.job, asked.demands, asked.worth_s) == ("a", MORE.demands, 9.0)
    assert [(room.host, room.cpu_cores) for room in asked.hosts] == [("host:0", 2.0), ("host:1", 2.0)]
    b = next(job for job in asked.jobs if job.job == "b")
    worker = next(task for task in b.tasks if task.node == "worker:0")
    assert (worker.host, worker.cpu_cores) == ("host:0", pytest.approx(1.0, abs=0.12))
    assert (worker.cpu_s, worker.iter_s) == (pytest.approx(0.1), pytest.approx(0.1, abs=0.02))
    assert (b.groups, b.model, b.gain) == ((("worker:0", "worker:1"),), "vgg16", 1.0)


def test_shares_in_force_never_exceed_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs that change modes all the time, looked at after every change of a limit."""
    seen: list[float] = []
    carry_out = host_sharing.HostSharing._carry_out

    def looked(self: Any) -> None:
        carry_out(self)
        seen.extend(total / capacity for _, _, total, capacity in self.books.totals())

    monkeypatch.setattr(host_sharing.HostSharing, "_carry_out", looked)
    lab = Neighbours(prevention=StarPrevention())
    asks = {0.5 * step: (MORE if step % 3 else NOTHING) for step in range(2, 16)}
    lab.add("a", Saying(asks))
    lab.add("b", BSP())
    lab.add("c", Saying({at_s + 0.1: command for at_s, command in asks.items()}))
    lab.run()
    assert len(seen) > 20
    assert 0.5 < max(seen) <= 1.0 + 1e-9


def test_nothing_is_taken_from_jobs_of_which_nothing_is_known() -> None:
    """At 0.05 s nobody has delivered a gradient yet."""
    policy = Always()
    lab = Neighbours(prevention=policy)
    lab.add("a", Saying({0.05: MORE}))
    lab.add("b", BSP())
    lab.run()
    assert not policy.asked
    assert [event["reason"] for event in lab.tapes["a"].received("Reserved")] == ["it is not known yet what a, b need"]
