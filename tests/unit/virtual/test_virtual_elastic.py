"""The virtual clock with nodes that come and go, where that takes time, and processes die in the middle of it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from injectors.plan import build_plan
from runtime.api import RunSpec
from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.core.quota import Quota
from runtime.core.recovery.states import Phase
from runtime.core.recovery.task import ALIVE
from runtime.record.recorder import Recorder
from runtime.virtual.clock import MESSAGE
from runtime.virtual.costs import Costs
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Arrived,
    Evaluate,
    Launch,
    NodeId,
    Repartition,
    Retire,
    ServerJoined,
    Strategy,
)
from tests.support.elastic import Wanderer
from tests.support.invariants import problems
from tests.support.long_tests import long_after
from tests.support.switching import Switching
from tests.support.virtual_runs import (
    EPOCHS,
    HORIZON_S,
    LIMIT_S,
    Chance,
    VirtualRun,
    World,
    draw_costs,
    draw_host_world,
    draw_hosts,
    draw_windows,
    draw_world,
    lose,
)

SEEDS = range(12)
ALWAYS = 3
"""So many of them are for every commit."""
STEPS = 40_000
SCHEDULER = Quota(cores_total=3, cores_max=5, pending_s=0.5, pending_s_per_core=0.25, evict_after_s=4.0)


class StormRun(VirtualRun):
    """A random process dies now and then, and one in three times as soon as a recovery or a repartition takes a step.

    ``phases`` counts the deaths by the phase of the recovery, ``moved`` the repartitions that kept the parameters.
    """

    def __init__(self, world: World, strategy: Strategy, seed: int) -> None:
        self.random = Random(f"{seed}/storm")
        self.phases: Counter[str] = Counter()
        self.moved = 0
        self.scheduler = dataclasses.replace(SCHEDULER, evict_notice=seed % 2 == 0)
        super().__init__(world, strategy)

    def _spec(self, recorder: Recorder, learning: str) -> RunSpec:
        return dataclasses.replace(super()._spec(recorder, learning), scheduler=self.scheduler)

    def _play(self) -> None:
        session = self.session
        self._compare_parameters()
        session.begin()
        for _ in range(12):
            session.clock.at(self.random.uniform(0, HORIZON_S), MESSAGE, self.kill)
        before = self.phase_now
        for _ in range(STEPS):
            if session.over:
                break
            session.clock.step()
            if self.phase_now != before and session.clock.now < HORIZON_S and self.strikes():
                session.clock.at(session.clock.now, MESSAGE, self.kill)
            before = self.phase_now
        else:
            raise RuntimeError(f"no end after {STEPS} steps, at t={session.clock.now:g}")
        self.refused = session.failure or ""
        session.end()

    def strikes(self) -> bool:
        """Storing is short on this clock, and rarely hit by chance."""
        return self.random.random() < (0.7 if self.phase_now == "storing" else 0.3)

    @property
    def phase_now(self) -> str:
        state = self.session.supervisor.recovery.state
        return "storing" if state.moving is not None and state.phase == Phase.RUNNING else str(state.phase)

    def kill(self) -> None:
        """Anybody who has a process; the last worker returns, and one worker in five does not."""
        supervisor = self.session.supervisor
        alive = [task for task in supervisor.recovery.tasks.values() if task.state in ALIVE]
        if not alive or self.session.over:
            return
        victim = self.random.choice(alive)
        self.phases[self.phase_now] += 1
        restarting = True
        if victim.role != "server":
            workers = sum(task.role == "worker" for task in alive)
            restarting = workers < 3 or self.random.random() < 0.8
        lose(supervisor, NodeId(victim.role, victim.id), restarting=restarting)

    def _compare_parameters(self) -> None:
        supervisor, model_state = self.session.supervisor, self.model_state
        original = supervisor._restore

        def restore(t: float, news: Any) -> None:
            same = news.version == self.session.coordinator.version
            before = model_state.params.copy()  # type: ignore[attr-defined]
            original(t, news)
            if same:
                assert np.array_equal(before, model_state.params)  # type: ignore[attr-defined]
                self.moved += 1

        supervisor._restore = restore  # type: ignore[method-assign]


@cache
def stormy(seed: int, failover: str, *, on_hosts: bool = False) -> tuple[StormRun, Wanderer]:
    """With hosts, and in every third world without, a plan disturbs processors, links and tasks."""
    drawn = draw_host_world(3, 3 * seed) if seed % 3 == 0 else draw_world(3, seed)
    chance = Chance("elastic", seed)
    job = msgspec.structs.replace(drawn.job, num_samples=180, failover=failover, num_servers=2)
    costs = draw_costs(chance, 4 * job.num_samples)
    world = msgspec.structs.replace(drawn, job=job, costs=costs, transport="tcp", accidents=())
    if on_hosts:
        hosts = draw_hosts(chance, job)
        plan = draw_windows(chance, job, hosts, seed)
        world = msgspec.structs.replace(world, hosts=hosts, plan=plan, lease_s=chance.random.choice((1.5, 3.0)))
    strategy = Wanderer(seed, often=0.25)
    return StormRun(world, strategy, seed), strategy


@pytest.mark.few(6)
@pytest.mark.parametrize("on_hosts", [False, True], ids=["machines", "hosts"])
@pytest.mark.parametrize("failover", ["shards", "checkpoint"])
@pytest.mark.parametrize("seed", long_after(SEEDS, ALWAYS))
def test_every_sample_is_used_once_whatever_is_asked_for(seed: int, failover: str, on_hosts: bool) -> None:
    run, _ = stormy(seed, failover, on_hosts=on_hosts)
    assert run.refused == ""
    assert (run.end["note"]["status"], set(run.uses())) == ("done", {float(EPOCHS)})
    assert problems(run.lines) == []


@pytest.mark.long(like="test_every_sample_is_used_once_whatever_is_asked_for")
def test_the_storm_has_everything_in_it() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS[:ALWAYS]:
        for failover in ("shards", "checkpoint"):
            run, strategy = stormy(seed, failover)
            counts += strategy.counts + strategy.told + run.phases
            counts["moved"] += run.moved
    wanted = {"Launch", "Retire", "Repartition", "Allocate", "Denied", "evicted", "ServerJoined"}
    assert all(counts[kind] >= 10 for kind in wanted), counts
    assert all(counts[phase] >= 2 for phase in ("storing", "rendezvous", "loading", "running", "moved")), counts


# ---- the parameters themselves ---------------------------------------------------------------------------------------


class Regression:
    """Least squares on random points, whose gradients depend on every bit of the parameters."""

    num_parameters = 50

    def __init__(self, num_samples: int) -> None:
        draw = np.random.default_rng(3)
        self.num_samples = num_samples
        self.points = draw.normal(size=(num_samples, self.num_parameters)).astype(np.float32)
        self.wanted = draw.normal(size=num_samples).astype(np.float32)

    def initial_parameters(self, seed: int) -> Any:
        return np.random.default_rng(seed).normal(size=self.num_parameters).astype(np.float32)

    def numpy_gradient(self, params: Any, indices: Any, grad: Any) -> float:
        wrong = self.points[indices] @ params - self.wanted[indices]
        grad += wrong @ self.points[indices]
        return float(wrong @ wrong)

    def numpy_metrics(self, params: Any) -> dict[str, float]:
        return {"loss": float(np.square(self.points @ params - self.wanted).mean())}


class RegressionRun(VirtualRun):
    """Trains a :class:`Regression` by plain SGD."""

    def _spec(self, recorder: Recorder, learning: str) -> RunSpec:
        spec = super()._spec(recorder, learning)
        task: Any = Regression(spec.job.num_samples)
        return dataclasses.replace(spec, task=task, optimizer={"name": "sgd", "lr": 0.01})


GROW = ("wait 3", "servers 4", "divide 1:2:1:3", "wait 6", "divide 1", "servers 1")


def grown(strategy: Strategy, seed: int = 2, hosts: Hosts | None = None) -> RegressionRun:
    drawn = draw_world(3, 2)
    job = msgspec.structs.replace(drawn.job, num_servers=1, lr=0.01, metric="loss", epoch_overlap=False, seed=seed)
    costs = Costs(compute_base_s=1.0, launch_s=1.5, checkpoint_base_s=0.25)
    undisturbed = {"plan": build_plan("none", seed, LIMIT_S, []), "accidents": (), "profile": None}
    world = msgspec.structs.replace(drawn, job=job, costs=costs, transport="tcp", hosts=hosts, **undisturbed)
    return RegressionRun(world, strategy)


def test_bsp_from_one_server_to_four_and_back_trains_the_same_bits() -> None:
    still, moved = grown(Switching()), grown(Switching(steps=GROW))
    for run in (still, moved):
        assert (run.refused, run.end["note"]["status"]) == ("", "done")
        assert problems(run.lines) == []
    restored = [line["event"]["servers"] for line in moved.events("Restored")]
    assert (still.events("Restored"), restored) == ([], [[0, 1, 2, 3], [0]])
    layouts = [note["note"]["nodes"][:-3] for note in moved.notes("LayoutChanged")]
    assert layouts[-1] == ["server:0"], "the others have been retired"
    assert still.end["note"]["version"] == moved.end["note"]["version"] > 12
    assert still.end["note"]["parameters_sha256"] == moved.end["note"]["parameters_sha256"]
    assert moved.end["t"] > still.end["t"], "two checkpoints are stored and read meanwhile"


class Curious(Switching):
    """Asks for an evaluation as soon as a server has joined."""

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = super().handle(event)
        return [*commands, Evaluate()] if isinstance(event, ServerJoined) else commands


def test_what_answers_a_server_that_has_joined_is_ordered_at_once() -> None:
    """Not with the next decision, which here is an arrival's."""
    moved = grown(Curious(steps=GROW))
    joined_s = {line["t"] for line in moved.events("ServerJoined")}
    assert len(joined_s) == 1
    assert joined_s < {line["event"]["asked_s"] for line in moved.events("Evaluated")}


def test_on_hosts_bsp_from_one_server_to_three_and_back_trains_the_bits_of_a_job_without_hosts() -> None:
    """The new servers take the hosts of the fewest tasks, and leave them."""
    hosts = parse_hosts({"count": 3, "cpu_cores": 2.0, "link_mbps": 100}, 3, 1)
    script = ("wait 3", "servers 3", "divide 1:2:1", "wait 6", "divide 1", "servers 1")
    still, moved = grown(Switching()), grown(Switching(steps=script), hosts=hosts)
    assert (moved.refused, moved.end["note"]["status"], problems(moved.lines)) == ("", "done", [])
    assert [line["event"]["servers"] for line in moved.events("Restored")] == [[0, 1, 2], [0]]
    places = {line["event"]["server"]: line["event"]["place"] for line in moved.events("ServerJoined")}
    assert places == {1: "host:0", 2: "host:1"}
    placement = moved.session.places.placement
    assert placement is not None
    assert placement.tasks_on == [list(host.tasks) for host in hosts.hosts]
    assert still.end["note"]["parameters_sha256"] == moved.end["note"]["parameters_sha256"]


def test_another_order_of_samples_trains_other_bits() -> None:
    """Without this the test before would prove nothing."""
    hashes = {grown(Switching(), seed).end["note"]["parameters_sha256"] for seed in (2, 7)}
    assert len(hashes) == 2


@dataclasses.dataclass(eq=False)
class ChangesItsMind(Wanderer):
    """Launches a server with the third gradient and retires it ``after`` gradients later, unless it has joined."""

    after: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.arrived, self.joined = 0, False

    def handle(self, event: AnyEvent) -> list[AnyCommand]:
        commands = super().handle(event)
        self.arrived += isinstance(event, Arrived)
        if isinstance(event, Arrived) and self.arrived == 3:
            commands.append(Launch(node="server:1"))
        if isinstance(event, Arrived) and self.arrived == 3 + self.after and not self.joined:
            commands.append(Retire(node="server:1"))
        if isinstance(event, ServerJoined):
            self.joined = True
            commands.append(Repartition(servers=(0, 1)))
        return commands


@pytest.mark.parametrize(("after", "joins"), [(1, False), (2, False), (3, False), (4, True)])
def test_a_server_that_is_retired_while_its_report_waits_has_not_joined(after: int, joins: bool) -> None:
    """A decision takes half a second, so the report of a server that is ready waits for its turn."""
    drawn = draw_world(3, 2)
    job = msgspec.structs.replace(drawn.job, num_servers=1, lr=0.01, metric="loss", epoch_overlap=False, seed=2)
    costs = Costs(compute_base_s=1.0, launch_s=1.5, checkpoint_base_s=0.25, decision_s=0.5)
    plan = build_plan("none", 2, LIMIT_S, [])
    quiet = {"transport": "tcp", "hosts": None, "accidents": (), "profile": None}
    strategy = ChangesItsMind(1, most_wishes=0, after=after)
    run = VirtualRun(msgspec.structs.replace(drawn, job=job, costs=costs, plan=plan, **quiet), strategy)
    assert (strategy.joined, run.refused) == (joins, "")
