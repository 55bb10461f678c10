"""Newcomers that are denied, never get a place, or die before they join: no strategy notices more than that.

An operator asks for the workers, and takes some away; servers and workers die meanwhile. With servers, and for
strategies that allow it with replicas.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import inf

import pytest

from runtime.core.inputs import Operated
from runtime.core.scheduling import Grant, Request, Scheduler
from strategies.protocol import Denied, Joined, Lost, NodeId, Restored
from tests.contract.catalogue import NAMES, fits, hurried, sample, uneven_job
from tests.support.faults import random_seconds, restarts
from tests.support.harness import HeapRun
from tests.support.laws import Complaints, dead, played, unaveraged, unconserved, unlawful
from tests.support.long_tests import rows_long_after
from tests.support.scores import random_scores

START = 4
SEEDS = (1, 2)
NEVER_S = 1e5


class Moody(Scheduler):
    """Newcomers have a place soon, are denied, wait forever, and have a place later, in turn."""

    grants = (Grant(pending_s=0.5), Grant(denied="no more cores"), Grant(pending_s=NEVER_S), Grant(pending_s=1.0))

    def draw_s(self, t: float, seed: int, number: int) -> float:
        return 0.5

    def expected_s(self, t: float) -> float:
        return 0.5

    def next_change_s(self, t: float) -> float:
        return inf

    def place(self, t: float, seed: int, number: int, request: Request) -> Grant:
        return self.grants[number % len(self.grants)]


CHANGES = (
    (2.0, "join", 4),
    (2.0, "join", 5),
    (3.0, "join", 6),
    (3.25, "join", 7),
    (5.0, "leave", 1),
    (6.0, "join", 8),
    (6.25, "leave", 8),
    (9.0, "leave", 4),
    (12.0, "leave", 6),
)
"""(time, change, worker): 5 is denied, 6 waits until its request is taken back, 8 leaves before it has joined."""
CRASH_S = 3.25 + 1.0 + 0.5
"""Worker 7 dies while its process starts."""


@cache
def grown(name: str, num_servers: int, seed: int) -> tuple[HeapRun, Complaints]:
    """Three epochs; the servers are lost while some are launching."""
    job = uneven_job(START, seed, num_servers=num_servers)
    faults = restarts(seed, START, outages=2 if num_servers else 0)
    run = HeapRun(hurried(name), job, random_seconds(seed), faults, scheduler=Moody())
    run.cosine = random_scores(seed)
    for t, change, worker in CHANGES:
        order = Operated(change, f"worker:{worker}")  # type: ignore[arg-type]
        run.push(t, 0, lambda now, order=order: run.core.receive(now, order))
    run.push(CRASH_S, 0, lambda t: crash(run, t))
    if num_servers:
        run.push(CRASH_S - 0.25, 0, lambda t: run.kill(t, NodeId.server(0), t + 0.5))
    return run, played(run)


def crash(run: HeapRun, t: float) -> None:
    """Worker 7 dies, if it is launching, and starts again."""
    node = NodeId.worker(7)
    if node in run.recovery.tasks:
        run.kill(t, node, t + 1.0)


def servers_of(name: str) -> list[int]:
    """Numbers of servers with which it is played; 0 for replicas."""
    topologies = sample(name).topologies
    return [number for number, topology in ((2, "ps"), (0, "allreduce")) if topology in topologies]


JOBS = [(name, servers) for name in NAMES if fits(name, START) for servers in servers_of(name)]
FIRST = JOBS[::5]
SEEDED = [(*job, seed) for seed in SEEDS for job in [*FIRST, *(job for job in JOBS if job not in FIRST)]]


@pytest.mark.parametrize(("name", "num_servers", "seed"), rows_long_after(SEEDED, always=len(FIRST)))
def test_every_strategy_goes_on_whatever_becomes_of_newcomers(name: str, num_servers: int, seed: int) -> None:
    run, refused = grown(name, num_servers, seed)
    assert refused + unlawful(run) + dead(run) + unconserved(run) + unaveraged(run) == []
    assert set(run.recovery.state.members.layout.nodes) == set(run.core.members.layout.nodes)
    computed = {grad.worker for _, _, grads in run.applied for grad in grads}
    assert computed & {worker for _, change, worker in CHANGES if change == "join"}, "newcomers contribute"


def test_all_of_it_happens() -> None:
    told: Counter[str] = Counter()
    for name, num_servers in FIRST:
        run, _ = grown(name, num_servers, 1)
        told.update(type(event).__name__ for event in run.events if isinstance(event, Denied | Joined | Restored))
        told.update(event.cause for event in run.events if isinstance(event, Lost))
        seven = run.recovery.tasks.get(NodeId.worker(7))
        told["died early"] += seven is not None and seven.incarnation > 0
    assert all(told[kind] >= len(FIRST) // 2 for kind in ("Denied", "Joined", "Restored", "retired", "died early")), (
        told
    )
