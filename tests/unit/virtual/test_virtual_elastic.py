"""Nodes that come and go on the virtual clock: all that this costs takes time, and processes die in the middle of it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import cache
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from runtime.api import RunSpec
from runtime.core.quota import Quota
from runtime.core.recovery.states import Phase
from runtime.core.recovery.task import ALIVE
from runtime.record.recorder import Recorder
from runtime.virtual.clock import MESSAGE
from strategies.protocol import Strategy
from tests.support.elastic import Wanderer
from tests.support.invariants import problems
from tests.support.virtual_runs import EPOCHS, HORIZON_S, Chance, VirtualRun, World, draw_costs, draw_world

SEEDS = range(12)
STEPS = 40_000
SCHEDULER = Quota(cores_total=3, cores_max=5, pending_s=0.5, pending_s_per_core=0.25, evict_after_s=4.0)


class StormRun(VirtualRun):
    """A random process dies now and then, and one in three times as soon as a recovery or a repartition takes a step.

    ``phases`` counts the deaths by what was going on, ``moved`` the repartitions that kept the parameters as they were.
    """

    def __init__(self, world: World, strategy: Strategy, seed: int) -> None:
        self.random = Random(f"{seed}/storm")
        self.phases: Counter[str] = Counter()
        self.moved = 0
        super().__init__(world, strategy)

    def _experiment(self, recorder: Recorder, learning: str) -> RunSpec:
        return dataclasses.replace(super()._experiment(recorder, learning), scheduler=SCHEDULER)

    def _play(self) -> None:
        session = self.session
        self._compare_parameters()
        session.begin()
        for _ in range(12):
            session.clock.at(self.random.uniform(0, HORIZON_S), MESSAGE, self.kill)
        before = self.going_on
        for _ in range(STEPS):
            if session.over:
                break
            session.clock.step()
            if self.going_on != before and session.clock.now < HORIZON_S and self.random.random() < 0.3:
                session.clock.at(session.clock.now, MESSAGE, self.kill)
            before = self.going_on
        else:
            raise RuntimeError(f"no end after {STEPS} steps, at t={session.clock.now:g}")
        self.refused = session.failure or ""
        session.end()

    @property
    def going_on(self) -> str:
        state = self.session.supervisor.recovery.state
        return "storing" if state.moving is not None and state.phase == Phase.RUNNING else str(state.phase)

    def kill(self) -> None:
        """Anybody who has a process; the last worker returns, and one worker in five does not."""
        supervisor = self.session.supervisor
        alive = [task for task in supervisor.recovery.tasks.values() if task.state in ALIVE]
        if not alive or self.session.over:
            return
        victim = self.random.choice(alive)
        self.phases[self.going_on] += 1
        if victim.role == "server":
            supervisor.lose_server(victim.id, "killed")
        else:
            workers = sum(task.role == "worker" for task in alive)
            supervisor.lose_worker(victim.id, "killed", restarting=workers < 3 or self.random.random() < 0.8)

    def _compare_parameters(self) -> None:
        supervisor, learner = self.session.supervisor, self.learner
        original = supervisor._restore

        def restore(t: float, news: Any) -> None:
            same = news.version == self.session.coordinator.version
            before = learner.params.copy()  # type: ignore[attr-defined]
            original(t, news)
            if same:
                assert np.array_equal(before, learner.params)  # type: ignore[attr-defined]
                self.moved += 1

        supervisor._restore = restore  # type: ignore[method-assign]


@cache
def stormy(seed: int, failover: str) -> tuple[StormRun, Wanderer]:
    drawn = draw_world(3, seed)
    job = msgspec.structs.replace(drawn.job, num_samples=180, failover=failover, num_servers=2)
    costs = draw_costs(Chance("elastic", seed), 4 * job.num_samples)
    world = msgspec.structs.replace(drawn, job=job, costs=costs, transport="tcp", accidents=())
    strategy = Wanderer(seed, often=0.25)
    return StormRun(world, strategy, seed), strategy


@pytest.mark.parametrize("failover", ["shards", "checkpoint"])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_sample_is_used_once_whatever_is_asked_for(seed: int, failover: str) -> None:
    run, _ = stormy(seed, failover)
    assert run.refused == ""
    assert (run.end["note"]["status"], set(run.uses())) == ("done", {float(EPOCHS)})
    assert problems(run.lines) == []


def test_the_storm_has_everything_in_it() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        for failover in ("shards", "checkpoint"):
            run, strategy = stormy(seed, failover)
            counts += strategy.counts + strategy.told + run.phases
            counts["moved"] += run.moved
    wanted = {"Launch", "Retire", "Repartition", "Allocate", "Denied", "evicted", "ServerJoined"}
    assert all(counts[kind] >= 50 for kind in wanted), counts
    assert all(counts[phase] >= 10 for phase in ("storing", "gathering", "loading", "running", "moved")), counts
