"""Sums by schedules on the virtual clock: on idle links as in closed forms, with a late worker, after a loss."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from runtime.cluster.hosts import parse_hosts
from runtime.cluster.sum_traces import read_trace
from runtime.core.collectives.known import SCHEDULES, Summing
from runtime.core.collectives.times import ends_s
from runtime.virtual.clock import MACHINE, MESSAGE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.event_loop.obstacles import lasting_obstacle
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from runtime.virtual.tasks.collective_sum import CollectiveSum
from runtime.virtual.tasks.replicas import Replicas
from strategies.basic.bsp import BSP
from strategies.protocol import NodeId
from tests.support.members import ring_of
from tests.support.runs import ROOT
from tests.support.virtual_runs import lose
from tests.unit.virtual.test_virtual_replicas import allreduce_job, session
from tests.unit.virtual.test_virtual_session import Tape, finish, slow, uses

pytestmark = pytest.mark.usefixtures("even_quotas")
LINK_BYTES_PER_S = 1024.0
RING_OF_8 = ROOT / "tests/logs/public/ring_of_8"
PARAMETERS = 16 * 8 * 7 * 3
"""Equal parts of whole cache lines, for 8 ranks and 7, in up to 3 blocks."""


def sum_s(summing: Summing, begun_s: Sequence[float], latency_s: float) -> float:
    """When all of these hosts have the sum, to which each rank comes at its time."""
    clock = new_clock()
    names = [f"worker:{rank}" for rank in range(len(begun_s))]
    sites = {name: Site(f"host:{rank}", 1.0, LINK_BYTES_PER_S) for rank, name in enumerate(names)}
    made = CollectiveSum(ModelledMachines(clock, sites), Costs(latency_s=latency_s), names, PARAMETERS, summing)
    ended_s = list[float]()
    for rank, at_s in enumerate(begun_s):
        clock.at(at_s, MACHINE, made.join, rank, lambda: ended_s.append(clock.now))
    while made.waiting:
        clock.step()
    return max(ended_s)


AT_ONCE = (0.0,) * 8
ONE_LATE = (*AT_ONCE[1:], 100.0)


BEGUN_S = {"at once": AT_ONCE, "last late": ONE_LATE, "first late": ONE_LATE[::-1]}
SHARES_LINKS = {("transpose", "last late"), ("transpose", "first late")}
"""Messages of several rounds that meet at a member share its link."""


@pytest.mark.parametrize(
    ("name", "begun"),
    [(name, when) for name in sorted(SCHEDULES) for when in BEGUN_S if (name, when) not in SHARES_LINKS],
)
def test_message_by_message_it_takes_what_it_takes_on_idle_links(name: str, begun: str) -> None:
    begun_s = BEGUN_S[begun]
    latency_s, size_s = 0.25, 4 * PARAMETERS / LINK_BYTES_PER_S
    expected_s = ends_s(Summing(name).schedule(8), lambda frac: latency_s + size_s * frac, begun_s)
    assert sum_s(Summing(name), begun_s, latency_s) == pytest.approx(max(expected_s), rel=1e-9)


def test_a_traced_ring_takes_what_a_ring_does() -> None:
    traced = Summing("trace", traced=read_trace(RING_OF_8))
    assert sum_s(traced, AT_ONCE, 0.25) == pytest.approx(sum_s(Summing("ring"), AT_ONCE, 0.25), rel=1e-12)


def test_stragglar_needs_less_once_the_last_has_come() -> None:
    """9 rounds of a seventh, and not 14 of an eighth."""
    left_s = {name: sum_s(Summing(name), ONE_LATE, 0.0) - 100.0 for name in ("ring", "stragglar")}
    size_s = 4 * PARAMETERS / LINK_BYTES_PER_S
    assert left_s == {"ring": pytest.approx(14 / 8 * size_s), "stragglar": pytest.approx(9 / 7 * size_s)}


HOP = Costs(ring_step_s=1 / 64, link_bytes_per_s=1024.0)
FLOATS = 192
"""A third is 256 bytes."""
ROUND_S = 1 / 64 + 256 / 1024


def job(summing: Summing, **about: Any) -> tuple[VirtualSession, Tape]:
    """Four workers, of which worker 1 takes twice as long, 16 updates."""
    return session(
        BSP(),
        allreduce_job(),
        HOP,
        actuator=slow(w1=1.0 + 8 * ROUND_S),
        parameters=FLOATS,
        spec={"summing": summing},
        **about,
    )


@pytest.mark.parametrize("hosts", [None, 4])
def test_a_round_with_a_late_worker_takes_what_is_left_when_it_has_come(hosts: int | None) -> None:
    """n - 2 + log2 n rounds of a third; the last update is only ordered."""
    about = {} if hosts is None else {"hosts": parse_hosts({"count": hosts}, 4, 0)}
    outcome = finish(*job(Summing("stragglar", 1, 1), **about))
    assert outcome.t == pytest.approx(16 * 0.25 * (2 + 8 * ROUND_S) + 15 * 4 * ROUND_S)


@pytest.mark.parametrize("hosts", [None, 4])
def test_who_is_not_late_holds_up_the_others(hosts: int | None) -> None:
    """Worker 0 is expected to be late, and worker 1 is: the others reduce when worker 1 has come, two rounds more."""
    about = {} if hosts is None else {"hosts": parse_hosts({"count": hosts}, 4, 0)}
    outcome = finish(*job(Summing("stragglar", 1, 0), **about))
    assert outcome.t == pytest.approx(16 * 0.25 * (2 + 8 * ROUND_S) + 15 * 6 * ROUND_S)


@pytest.mark.parametrize("hosts", [None, 4])
@pytest.mark.parametrize("late", [0, 1])
def test_a_job_that_loses_a_worker_while_others_sum_uses_every_sample_once(hosts: int | None, late: int) -> None:
    about: dict[str, Any] = {} if hosts is None else {"hosts": parse_hosts({"count": hosts}, 4, 0)}
    for at_s in (0.26, 0.9, 1.3, 1.9):
        run, tape = job(Summing("stragglar", 1, late), learns=True, **about)
        run.clock.at(at_s, MESSAGE, partial(lose, run.supervisor, NodeId.worker(1), restarting=False))
        finish(run, tape)
        assert uses(run) == {1.0}
        assert len(tape.received("Restored")) == 1


def test_the_compiled_loop_leaves_a_late_worker_to_python() -> None:
    assert lasting_obstacle(job(Summing("tree"))[0]) is None
    assert lasting_obstacle(job(Summing("stragglar", 1, 1))[0]) == "replicas sum while one is late"


def test_what_replicas_send_is_what_the_schedule_says() -> None:
    """Of a tree of 4 a rank sends 6/4 of the vector on average, of halving and doubling what it sends in a ring."""
    sent = {name: Replicas(new_clock(), HOP, 64, ring_of(4), summing=Summing(name)).traffic()[0] for name in SCHEDULES}
    assert sent["tree"] == sent["ring"] == sent["halving_doubling"] == 384.0
    assert sent["stragglar"] == pytest.approx(256 / 4 * (3 * 2 / 3 + 2 * 3 / 3 + 6 / 3))
