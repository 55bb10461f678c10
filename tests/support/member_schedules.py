"""Random schedules of losses, joins, restarts and preemptions, for every strategy: whole jobs, validated throughout.

Half of them are on the heap, where the recovery decides as it does live, half on the virtual clock; with servers,
replicas of servers, or all-reduce.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any, NamedTuple

import msgspec

from injectors.plan import Disturbance, Kind, build_plan
from runtime.core import inputs
from runtime.core.job import ComputeOrder, Job
from runtime.core.quota import Quota
from runtime.core.recovery import effects
from runtime.core.recovery import inputs as recovery
from runtime.live.control.tasks import MAX_FUTILE
from runtime.virtual.clock import MESSAGE
from runtime.virtual.control.session import VirtualSession
from strategies.protocol import NodeId, Strategy
from tests.contract.catalogue import NAMES, fits, has_servers, hurried, make, sample
from tests.support.elastic import Wanderer
from tests.support.faults import departures, preemptions, quarters, random_outcome, random_seconds, restarts
from tests.support.harness import HeapRun, make_job
from tests.support.scores import random_scores
from tests.support.virtual_runs import (
    LIMIT_S,
    VirtualRun,
    World,
    draw_host_ring_world,
    draw_host_world,
    draw_replica_world,
    draw_world,
)

WANDERER = "wanderer"
SCHEDULER = Quota(cores_total=3, cores_max=5, pending_s=0.5, pending_s_per_core=0.25, evict_after_s=4.0)


class Schedule(NamedTuple):
    """What follows from its number."""

    number: int
    runtime: str
    """``heap`` or ``virtual``."""
    topology: str
    """``servers``, ``followed`` (a replica or two of the server), or ``allreduce``."""
    name: str
    num_workers: int

    @property
    def random(self) -> Random:
        return Random(f"{self.number}/members")


def schedule(number: int) -> Schedule:
    """The runtimes and strategies take turns."""
    random = Random(f"{number}/schedule")
    names = [*NAMES, WANDERER, WANDERER]
    name = names[number // 2 % len(names)]
    size = random.choice([size for size in (2, 3, 4, 5) if name == WANDERER or fits(name, size)] or [4])
    topologies = ["servers"] if name == WANDERER or has_servers(name) else []
    if name == WANDERER or "allreduce" in sample(name).topologies:
        topologies.append("allreduce")
    if name == "mlfabric":
        topologies = ["servers", "followed", "followed"]
    return Schedule(number, ("heap", "virtual")[number % 2], random.choice(topologies), name, size)


def strategy_of(drawn: Schedule) -> Strategy:
    """A fresh strategy, which has something to decide within seconds."""
    if drawn.name == WANDERER:
        return Wanderer(drawn.number, often=0.3)
    if drawn.topology == "followed":
        replicas = 1 + drawn.number % 3 // 2
        return make("mlfabric", lr_rule="batch_linear", num_replicas=replicas, divergence_max=20.0)
    return hurried(drawn.name)


def job_of(drawn: Schedule, strategy: Strategy) -> dict[str, Any]:
    """What a job has of its topology."""
    random = drawn.random
    servers = {"servers": random.choice((1, 2, 3)), "followed": 1, "allreduce": 0}[drawn.topology]
    replicas = getattr(strategy, "num_replicas", 0) if drawn.topology == "followed" else 0
    failover = "shards" if replicas else random.choice(("shards", "shards", "checkpoint"))
    return {"num_servers": servers, "num_replicas": replicas, "failover": failover}


def play(number: int) -> Counter[str]:
    """One job from beginning to end; returns what happened how often."""
    drawn = schedule(number)
    return on_heap(drawn) if drawn.runtime == "heap" else on_virtual(drawn)


# ---- on the heap, by live's policy -----------------------------------------------------------------------------------


def on_heap(drawn: Schedule) -> Counter[str]:
    """Followers need a runtime that copies, so here a job with replicas has none."""
    strategy, random, seed, workers = strategy_of(drawn), drawn.random, drawn.number, drawn.num_workers
    about = job_of(drawn, strategy)
    if drawn.topology == "followed":
        strategy, about["num_replicas"] = make("mlfabric", lr_rule="batch_linear"), 0
    job = make_job(
        num_workers=workers,
        num_samples=41 + 11 * workers,
        global_batch_samples=2 * workers,
        batches_per_shard=1 + seed % 3,
        epochs=2,
        epoch_overlap=seed % 3 == 1,
        seed=seed,
        max_time_s=300.0,
        checkpoint_every_s=3.0,
        **about,
    )
    faults = restarts(seed, workers, horizon_s=20.0, outages=3 if job.num_servers else 0)
    if random.random() < 0.5 and workers > 1:
        faults += departures(seed, workers, horizon_s=20.0)
    if random.random() < 0.5:
        faults += preemptions(seed, horizon_s=20.0)
    run = ByLiveRules(strategy, job, random_seconds(seed), faults, random_outcome(seed), scheduler=SCHEDULER)
    run.cosine = random_scores(seed)
    for _ in range(random.randint(0, 3)):
        run.push(quarters(random, 1, 20), 0, partial(operated, run, random.choice(("join", "leave")), random.random()))
    for _ in range(random.randint(0, 6)):
        run.push(quarters(random, 1, 25), 0, partial(struck, run, random.random(), quarters(random, 0.25, 4)))
    run.run()
    assert run.core.status is not None or run.failed, f"{drawn} has no end"
    return Counter(type(line.event).__name__ for line in run.lines) + Counter(kind for _, kind, _ in run.notes)


class ByLiveRules(HeapRun):
    """With live's limits, by which a newcomer that dies again and again before it has computed has left."""

    failed = ""
    """What the run ends with that cannot continue."""

    def everybody_is_there(self) -> None:
        super().everybody_is_there()
        rules = msgspec.structs.replace(self.recovery.rules, max_futile=MAX_FUTILE, replaces_workers=True)
        self.recovery.rules = self.recovery.state.rules = self.recovery.limits.rules = rules

    def _computed(self, t: float, order: ComputeOrder, took: float) -> None:
        super()._computed(t, order, took)
        self.happen(t, recovery.Worked(NodeId.worker(order.worker), order.incarnation))

    def _news(self, t: float, effect: effects.AnyEffect) -> None:
        super()._news(t, effect)
        if isinstance(effect, effects.Failed):
            self.failed = effect.reason
            self.heap.clear()


def struck(run: HeapRun, draw: float, away_s: float, t: float) -> None:
    """A process is killed, perhaps of a newcomer that has not joined yet."""
    nodes = run.core.members.layout.nodes
    node = nodes[int(draw * len(nodes))]
    if node in run.recovery.tasks:
        run.kill(t, node, t + away_s)


def operated(run: HeapRun, change: str, draw: float, t: float) -> None:
    """An operator lets a worker join, or one leave of those that have joined: a strategy would not learn of others."""
    workers = [node for node in run.core.members.layout.workers if node not in run.core.members.awaited]
    if not workers:
        return
    run.core.receive(t, inputs.Operated(change, str(workers[int(draw * len(workers))])))  # type: ignore[arg-type]


# ---- on the virtual clock --------------------------------------------------------------------------------------------


def on_virtual(drawn: Schedule) -> Counter[str]:
    strategy = strategy_of(drawn)
    run = Visited(world_of(drawn, strategy), strategy, drawn)
    assert not run.refused or "no worker is left" in run.refused, f"{drawn}: {run.refused}"
    lines = run.lines
    kinds = [line["event"]["type"] if line["kind"] == "event" else line["note"]["type"] for line in lines]
    return Counter(kinds)


def world_of(drawn: Schedule, strategy: Strategy) -> World:
    """A random one, of one epoch, in which workers join and leave, too."""
    random, about = drawn.random, job_of(drawn, strategy)
    seed, workers = drawn.number, drawn.num_workers
    if drawn.topology == "allreduce":
        draws = (draw_replica_world, draw_host_ring_world)
    else:
        draws = (draw_world,) if drawn.topology == "followed" else (draw_world, draw_host_world)
    world = random.choice(draws)(workers, seed)
    if drawn.topology != "allreduce":
        about["num_servers"] = 1 if drawn.topology == "followed" else world.job.num_servers
    job = msgspec.structs.replace(world.job, epochs=2, **about)
    plan, accidents = world.plan, world.accidents
    if world.transport == "tcp" and strategy.data != "even" and drawn.topology != "followed":
        plan = build_plan("visitors", seed, LIMIT_S, [*plan.disturbances, *visits(random, job)])
    if drawn.topology == "followed":
        gone = [one for one in accidents if one.role == "worker" or one.id == 0]
        accidents = (*gone, *(msgspec.structs.replace(one, role="server", id=1) for one in gone[:2]))
        plan = build_plan("calm", seed, LIMIT_S, [one for one in plan.disturbances if one.target != "server:2"])
    return msgspec.structs.replace(world, job=job, plan=plan, accidents=accidents)


def visits(random: Random, job: Job) -> list[Disturbance]:
    """Workers that an operator lets join and leave; newcomers get the next numbers."""
    changes: list[tuple[Kind, int]] = [("join", job.num_workers + one) for one in range(random.randint(0, 2))]
    changes += [("leave", random.randrange(job.num_workers + 1)) for _ in range(random.randint(0, 2))]
    times = sorted(quarters(random, 1, 20) for _ in changes)
    return [
        Disturbance(start_s=t, end_s=t + 0.001, target=f"worker:{number}", kind=kind, magnitude=1.0)
        for t, (kind, number) in zip(times, changes, strict=True)
    ]


class Visited(VirtualRun):
    """Preempted in every other job, up to three times; replicas of a server would end, so theirs is not."""

    def __init__(self, world: World, strategy: Strategy, drawn: Schedule) -> None:
        self.drawn = drawn
        super().__init__(world, strategy)

    def _play(self) -> None:
        random, session = self.drawn.random, self.session
        followed = self.drawn.topology == "followed"
        for _ in range(0 if followed else random.choice((0, random.randint(1, 3)))):
            at_s, grace_s, away_s = quarters(random, 0, 20), random.choice((0.0, 0.5, 60.0)), quarters(random, 0, 8)
            session.clock.at(at_s, MESSAGE, partial(preempt, session, grace_s, away_s))
        super()._play()


def preempt(session: VirtualSession, grace_s: float, away_s: float) -> None:
    """It has its places again so long after it has left."""
    if not session.away and session.coordinator.status is None:
        session.preempt(grace_s, lambda: session.clock.at(session.clock.now + away_s, MESSAGE, session.resume, {}))
