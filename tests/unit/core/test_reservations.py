"""What a job reserves: the answer at once, unlawful questions, and the books of what jobs have left each other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.shared_hosts import SharedHosts, Task
from strategies.cluster.prevention.star import StarPrevention
from strategies.protocol import (
    Asked,
    Demand,
    Grant,
    HostRoom,
    JobLoad,
    ProtocolError,
    Reserve,
    Reserved,
    Share,
    TaskLoad,
)
from tests.support.harness import Puppet, Rig, make_job, puppet_rig

MORE = Reserve(demands=(Demand(node="server:0", cpu_cores=0.5),), worth_s=1.0)


class Refusing:
    """Says no, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Reserve] = []

    def reserve(self, t: float, command: Reserve) -> Reserved:
        self.asked.append(command)
        return Reserved(t=t, ok=False, reason="no")


def test_whoever_decides_for_all_jobs_answers() -> None:
    others = Refusing()
    rig = Rig(Puppet(), make_job(), reservations=others).start()
    rig.say(MORE)
    assert others.asked == [MORE]
    assert [event.reason for event in rig.received(Reserved)] == ["no"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (Reserve(demands=(Demand(node="server:7"),)), "no node server:7"),
        (Reserve(demands=(Demand(node="host:0"),)), "no node host:0"),
        (Reserve(demands=(Demand(node="server:0"), Demand(node="server:0"))), "server:0 twice"),
        (Reserve(demands=(Demand(node="server:0", cpu_cores=-1.0),)), "cpu_cores=-1"),
        (Reserve(demands=(Demand(node="server:0", link_bytes_per_s=float("nan")),)), "link_bytes_per_s=nan"),
        (Reserve(demands=(Demand(node="server:0", cpu_cores=float("inf")),)), "cpu_cores=inf"),
        (Reserve(worth_s=float("inf")), "worth_s=inf"),
    ],
)
def test_nonsense_is_against_the_law(command: Reserve, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        puppet_rig().say(command)


ROOMS = (HostRoom(host="host:0", cpu_cores=2.0, link_bytes_per_s=100.0), HostRoom(host="host:1", cpu_cores=1.0))
B = ("b", "worker:0")


def grant(**shares: float) -> tuple[Grant, dict[Task, str]]:
    """Cores of host 0, by task: ``a_server`` is job a's ``server:0``."""
    tasks = {(name[0], f"{name[2:]}:0"): cores for name, cores in shares.items()}
    held = {task: Share(node=task[1], cpu_cores=cores) for task, cores in tasks.items()}
    return Grant(ok=True, shares=held), dict.fromkeys(tasks, "host:0")


def test_the_smallest_of_several_limits_holds() -> None:
    books = SharedHosts(ROOMS)
    books.grant("a", *grant(a_server=0.5, b_worker=0.8))
    books.grant("c", *grant(c_server=0.4, b_worker=0.6))
    assert books.limit_of(B).cpu_cores == 0.6
    books.release("c")
    assert books.limit_of(B).cpu_cores == 0.8


def test_more_than_a_host_has_is_against_the_law_and_changes_nothing() -> None:
    books = SharedHosts(ROOMS)
    books.grant("a", *grant(a_server=0.5, b_worker=0.8))
    with pytest.raises(ProtocolError, match=r"grants 2\.3 cpu_cores of host:0, which has 2"):
        books.grant("c", *grant(c_server=1.0))
    assert [total for _, _, total, _ in books.totals()] == [1.3, 0.0, 0.0]
    assert not books.holds("c")


def test_limits_last_as_long_as_somebody_counts_on_them() -> None:
    """b has left something to d and more to a, and c has taken from a. When a gives back, b cannot have what c has."""
    books = SharedHosts(ROOMS)
    books.grant("d", *grant(d_server=0.6, b_worker=0.9))
    books.grant("a", *grant(a_server=0.9, b_worker=0.5))
    books.grant("c", *grant(c_server=0.4, a_server=0.5))
    books.release("a")
    assert books.limit_of(B).cpu_cores == 0.5, "else 0.6 + 0.9 + 0.4 + 0.5 of 2 cores would be in force"
    assert max(total for _, _, total, _ in books.totals()) == pytest.approx(2.0)
    books.release("c")
    assert books.limit_of(B).cpu_cores == 0.9


LOADS = {
    (job, node): (host, cores)
    for job, tasks in {
        "a": {"server:0": (0, 0.3), "worker:0": (1, 0.6)},
        "b": {"server:0": (1, 0.9), "worker:0": (0, 0.9)},
        "c": {"server:0": (0, 1.0), "worker:0": (0, 0.7), "worker:1": (1, 0.5)},
    }.items()
    for node, (host, cores) in tasks.items()
}


def load(books: SharedHosts, job: str, factor: float) -> JobLoad:
    """What a job needs now: its tasks' cores times the factor, or what they were granted or left."""
    tasks = []
    for (name, node), (host, cores) in LOADS.items():
        if name == job:
            held = books.share_of((job, node)).cpu_cores
            tasks.append(
                TaskLoad(
                    node=node,
                    host=f"host:{host}",
                    cpu_cores=factor * cores if held is None else held,
                    link_bytes_per_s=0.0,
                    cpu_s=cores,
                    iter_s=1.0 if node.startswith("worker") else None,
                    fixed=frozenset() if held is None else frozenset({"cpu_cores"}),
                )
            )
    return JobLoad(job=job, tasks=tuple(tasks))


STEPS = st.tuples(
    st.sampled_from("abc"), st.sampled_from(["reserve", "reserve", "release", "end"]), st.floats(0.01, 1.0)
)


@given(st.lists(st.tuples(STEPS, st.floats(0.2, 3.0)), max_size=12))
def test_at_no_instant_is_more_in_force_than_a_host_has(steps: list[Any]) -> None:
    """Whatever jobs ask for in whatever order, with needs that change meanwhile; refused ones change nothing."""
    books = SharedHosts(ROOMS)
    for (job, what, amount), factor in steps:
        if what == "reserve":
            without = copy.deepcopy(books)
            without.release(job)
            loads = tuple(load(without, one, factor) for one in "abc")
            demands = (Demand(node="server:0", cpu_cores=amount),)
            answer = StarPrevention().answer(Asked(job=job, demands=demands, worth_s=9.0, jobs=loads, hosts=ROOMS))
            if answer.ok:
                books.grant(job, answer, {task: f"host:{host}" for task, (host, _) in LOADS.items()})
                granted = books.granted_to(job)
                assert [share.node for share in granted] == ["server:0"]
        elif what == "release":
            books.release(job)
        else:
            books.forget(job)
        for _, _, total, capacity in books.totals():
            assert total <= capacity * (1 + 1e-9)
