"""Whole jobs on the virtual clock: one seed draws the sizes, the costs, the plan and the accidents of a world."""

from __future__ import annotations

import math
from functools import cached_property, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from injectors.patterns import Combined, Persistent, Transient
from injectors.plan import ClusterShape, Disturbance, Kind, Plan, build_plan, plan_json, plan_sha256
from injectors.schedule import Schedule
from runtime.api import RunSpec
from runtime.cluster.device import DeviceProfile
from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.core.collectives.known import Summing
from runtime.core.job import Job
from runtime.core.recovery import inputs
from runtime.record.recorder import Recorder
from runtime.virtual.clock import MESSAGE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.control.supervisor import VirtualSupervisor
from runtime.virtual.costs import Costs
from runtime.virtual.runtime import make_model_state
from runtime.virtual.tasks.model_state import RealModelState
from runtime.virtual.tasks.replicas import RING
from strategies.protocol import NodeId, Strategy
from tests.support.harness import MAX_STEPS, make_job, make_run_spec

HORIZON_S = 24.0
"""Accidents happen before; a calm job takes about so long."""
LIMIT_S = 3000.0
"""A job that takes longer will not end."""
EPOCHS = 3
BACKENDS = {"ledger": "runtime.backends.numpy.NumpyBackend", "none": "runtime.backends.none.NoBackend"}

Line = dict[str, Any]


class Accident(msgspec.Struct, frozen=True):
    """A process is gone; a worker may never come back."""

    at_s: float
    role: str
    id: int
    restarting: bool = True


def lose(supervisor: VirtualSupervisor, node: NodeId, *, restarting: bool = True) -> None:
    """The node's process is gone, as it would be reported; with ``restarting`` its next one follows."""

    def report(t: float) -> None:
        incarnation = supervisor.recovery.tasks[node].incarnation
        supervisor.tell(t, inputs.Gone(node, incarnation, "killed", for_good=not restarting))

    supervisor.owner.drive(report)


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Everything but the strategy."""

    job: Job
    costs: Costs
    profile: DeviceProfile | None
    transport: str
    plan: Plan
    accidents: tuple[Accident, ...]
    hosts: Hosts | None = None
    lease_s: float = math.inf

    def dead_until(self, task: str, t: float) -> float:
        """When the plan lets a task that it has killed by ``t`` start again."""
        host = "" if self.hosts is None else f"host:{self.hosts.host_of.get(task, '')}"
        end_s = -math.inf
        for one in self.plan.disturbances:  # sorted by their starts
            if one.kind == "kill" and one.target in (task, host) and (one.start_s <= t or one.start_s <= end_s):
                end_s = max(end_s, one.end_s)
        return end_s


# ---- drawing a world ------------------------------------------------------------------------------------------------


class Chance:
    """Seeded draws. Half of the worlds have ``coarse`` numbers, binary fractions, so that much happens at one time."""

    def __init__(self, *key: object) -> None:
        self.random = Random("/".join(map(str, key)))
        self.coarse = self.random.random() < 0.5

    def between(self, low: float, high: float) -> float:
        """A number; a multiple of 1/64 in a coarse world."""
        drawn = self.random.uniform(low, high)
        return round(drawn * 64) / 64 if self.coarse else drawn

    def perhaps(self, low: float, high: float) -> float:
        """A number, or nothing at all."""
        return self.random.choice((0.0, self.between(low, high)))


def draw_costs(chance: Chance, model_bytes: int) -> Costs:
    """Iterations of about a second; transfers, updates and decisions are short or long enough for queues."""
    one_of = chance.random.choice
    return Costs(
        compute_base_s=chance.between(0.25, 1.0),
        compute_per_sample_s=chance.perhaps(0.02, 0.2),
        jitter_sigma=0.0 if chance.coarse else one_of((0.0, 0.1, 0.5)),
        jitter_rho=one_of((0.0, 0.8)),
        sleep_overshoot_s=chance.perhaps(0.0, 0.05),
        data_base_s=chance.perhaps(0.0, 0.1),
        data_per_sample_s=chance.perhaps(0.0, 0.02),
        control_s=chance.perhaps(0.01, 0.1),
        decision_s=one_of((0.0, 1 / 256, 1 / 16, 1 / 4)),
        link_bytes_per_s=one_of((None, model_bytes * 2.0 ** chance.random.randint(0, 6))),
        latency_s=chance.perhaps(0.0, 0.05),
        transfer_per_byte_s=chance.perhaps(0.0, 0.1) / model_bytes,
        update_base_s=chance.perhaps(0.0, 0.05),
        update_per_byte_s=chance.perhaps(0.0, 0.05) / model_bytes,
        evaluation_s=chance.perhaps(0.0, 2.0),
        pending_s=chance.perhaps(0.0, 2.0),
        launch_s=chance.perhaps(0.0, 3.0),
        checkpoint_base_s=chance.perhaps(0.0, 0.5),
        disk_bytes_per_s=one_of((None, model_bytes * 4.0)),
    )


def draw_plan(chance: Chance, shape: ClusterShape, seed: int) -> Plan:
    """Transient stragglers among workers and servers, and a server that is slow for the rest."""
    windows = Transient(
        period_s=4.0,
        duration_s=2.0,
        probability=0.4,
        sleep_s=chance.between(0.5, 2.0),
        intensity=1.0,
        offset=chance.random.choice(("start", "uniform")),
        targets=("worker:*",),
        name="workers",
    )
    servers = Transient(period_s=6.0, duration_s=1.0, sleep_s=0.25, targets=("server:*",), name="servers")
    slow = Persistent(start_s=chance.between(0, HORIZON_S), sleep_s=0.125, targets=("server:0",), name="slow")
    return Combined(name="virtual", patterns={"a": windows, "b": servers, "c": slow}).plan(shape, LIMIT_S, seed)


def draw_accidents(chance: Chance, job: Job) -> tuple[Accident, ...]:
    """Crashes, some again while the worker restarts; departures, but somebody stays; server losses, some in a row.

    Servers are lost at any time, together with a worker, or while they write a checkpoint.
    """
    random, num_workers, num_servers = chance.random, job.num_workers, job.num_servers
    assert job.checkpoint_every_s is not None
    drawn = []
    for _ in range(random.randint(1, 2 + min(num_workers, 10))):
        at_s, worker = chance.between(0, HORIZON_S), random.randrange(num_workers)
        drawn.append(Accident(at_s, "worker", worker))
        if random.random() < 0.4:
            drawn.append(Accident(at_s + chance.between(0, 3), "worker", worker))
    for worker in random.sample(range(1, num_workers), random.randint(0, min(num_workers - 1, 6))):
        drawn.append(Accident(chance.between(0, HORIZON_S), "worker", worker, restarting=False))
    for _ in range(random.randint(0, 3)):
        writing_s = job.checkpoint_every_s * random.randint(1, 4) + 0.05
        at_s = random.choice((chance.between(0, HORIZON_S), random.choice(drawn).at_s, writing_s))
        drawn.append(Accident(at_s, "server", random.randrange(num_servers)))
        if random.random() < 0.5:
            drawn.append(Accident(at_s + chance.between(0, 2), "server", random.randrange(num_servers)))
    return tuple(drawn)


def draw_world(num_workers: int, seed: int) -> World:
    """The same for every strategy. Three epochs, some of them overlapping, of sizes that divide badly."""
    chance = Chance("world", num_workers, seed)
    num_servers = 1 + seed % 3
    job = make_job(
        num_workers=num_workers,
        num_servers=num_servers,
        num_samples=57 + 11 * num_workers,
        global_batch_samples=2 * num_workers + seed % 2,
        batches_per_shard=1 + seed % 3,
        epochs=EPOCHS,
        epoch_overlap=seed % 3 == 1,
        seed=seed,
        max_time_s=LIMIT_S,
        eval_every_s=chance.between(0.5, 3.0),
        checkpoint_every_s=chance.between(1.0, 6.0),
        metric="mean_uses",
    )
    shape = ClusterShape(num_workers=num_workers, num_servers=num_servers)
    return World(
        job=job,
        costs=draw_costs(chance, 4 * job.num_samples),
        profile=chance.random.choice((None, DeviceProfile(base_s=0.5, per_sample_s=1 / 64, saturation_s=0.75))),
        transport=chance.random.choice(("tcp", "shm")),
        plan=draw_plan(chance, shape, seed),
        accidents=draw_accidents(chance, job),
    )


def still_world(num_workers: int, seed: int) -> World:
    """No accidents, nothing costs anything but computing, and delays are as long as that: ties everywhere."""
    drawn = draw_world(num_workers, seed)
    shape = ClusterShape(num_workers=num_workers, num_servers=drawn.job.num_servers)
    delays = Transient(period_s=4.0, duration_s=2.0, probability=0.4, sleep_s=1.0, intensity=1.0)
    job = msgspec.structs.replace(drawn.job, eval_every_s=None, checkpoint_every_s=None)
    costs = Costs(compute_base_s=1.0)
    plan = delays.plan(shape, LIMIT_S, seed)
    return World(job=job, costs=costs, profile=None, transport="tcp", plan=plan, accidents=())


# ---- a world of hosts -----------------------------------------------------------------------------------------------

SHARES: dict[Kind, tuple[float, ...]] = {"cpu": (0.125, 0.5), "bandwidth": (0.0625, 0.25)}
"""What is left; of the other kinds there is one magnitude."""


def draw_hosts(chance: Chance, job: Job) -> Hosts:
    """As many as there are workers, or fewer; some without a limit, some with a device."""
    random = chance.random
    count = random.randint(1, min(job.num_workers + 1, 6))
    rate = 4 * job.num_samples * 8 / 1e6  # of the model once a second, but at least the least there is
    fields: dict[str, Any] = {
        "count": count,
        "cpu_cores": random.choice((None, 1.0, 4.0)),
        "real_cores_per_core": random.choice((0.25, 0.5)),
        "link_mbps": random.choice((None, max(1.0, rate))),
        "latency_ms": random.choice((0.0, 15.625)),
        "placement": random.choice(("spread", "pack")),
        "overrides": {0: {"device": {"base_s": 0.75}, "cpu_cores": 2.0}} if random.random() < 0.3 else {},
    }
    return parse_hosts(fields, job.num_workers, job.num_servers)


def draw_windows(chance: Chance, job: Job, hosts: Hosts | None, seed: int) -> Plan:
    """Every kind that there is a target for, in windows that overlap."""
    random = chance.random
    tasks = [f"worker:{number}" for number in range(job.num_workers)]
    tasks += [f"server:{number}" for number in range(job.num_servers)]
    numbers = range(0 if hosts is None else len(hosts.hosts))
    machines = [f"host:{number}" for number in numbers]
    links = [f"link:{number}" for number in numbers]
    routes = [f"link:{one}>{other}" for one in numbers for other in numbers if one != other]
    targets: dict[Kind, list[str]] = {
        "delay": tasks,
        "slowdown": tasks,
        "cpu": tasks + machines,
        "bandwidth": links + routes,
        "cut": links,
        "pause": tasks + machines,
        "kill": tasks + machines,
    }
    drawn = []
    for kind, choice in targets.items():
        for _ in range(random.randint(1, 3) if choice else 0):
            start_s = chance.between(0, HORIZON_S)
            end_s = start_s + chance.between(0.125, 4)
            magnitude = random.choice(SHARES.get(kind, (1.0,)))
            target = random.choice(choice)
            drawn.append(Disturbance(start_s=start_s, end_s=end_s, target=target, kind=kind, magnitude=magnitude))
    return build_plan("all kinds", seed, LIMIT_S, drawn)


def draw_host_world(num_workers: int, seed: int) -> World:
    """As :func:`draw_world`, but tasks share hosts (in two of three) and the plan has windows of all kinds."""
    drawn, chance = draw_world(num_workers, seed), Chance("hosts", num_workers, seed)
    hosts = draw_hosts(chance, drawn.job) if seed % 3 else None
    return msgspec.structs.replace(
        drawn,
        transport=drawn.transport if hosts is None else "tcp",
        plan=draw_windows(chance, drawn.job, hosts, seed),
        hosts=hosts,
        lease_s=chance.random.choice((1.5, 3.0)),
    )


def draw_replica_world(num_workers: int, seed: int) -> World:
    """As :func:`draw_world`, but all-reduce: rings instead of servers.

    Workers straggle, crash and leave; every other world disturbs them by windows of all kinds instead.
    """
    drawn, chance = draw_world(num_workers, seed), Chance("replicas", num_workers, seed)
    job = msgspec.structs.replace(drawn.job, num_servers=0)
    ring = {"ring_step_s": chance.perhaps(0.0, 0.05), "ring_per_byte_s": chance.perhaps(0.0, 0.2) / job.num_samples}
    delays = tuple(one for one in drawn.plan.disturbances if one.target.startswith("worker:"))
    return msgspec.structs.replace(
        drawn,
        job=job,
        costs=msgspec.structs.replace(drawn.costs, **ring),
        plan=draw_windows(chance, job, None, seed)
        if seed % 2
        else msgspec.structs.replace(drawn.plan, disturbances=delays),
        accidents=tuple(one for one in drawn.accidents if one.role == "worker"),
        lease_s=chance.random.choice((1.5, 3.0)),
    )


def draw_host_ring_world(num_workers: int, seed: int) -> World:
    """As :func:`draw_replica_world`, but rings between hosts, which every other plan disturbs, too."""
    drawn, chance = draw_replica_world(num_workers, seed), Chance("rings between hosts", num_workers, seed)
    hosts = draw_hosts(chance, drawn.job)
    plan = draw_windows(chance, drawn.job, hosts, seed) if seed % 2 else drawn.plan
    return msgspec.structs.replace(drawn, hosts=hosts, transport="tcp", plan=plan)


# ---- a job in it ----------------------------------------------------------------------------------------------------


class VirtualRun:
    """One job from beginning to end; ``refused`` says what it broke off with, if it did."""

    def __init__(
        self,
        world: World,
        strategy: Strategy,
        learning: str = "ledger",
        plan: Plan | None = None,
        summing: Summing = RING,
    ) -> None:
        self.world, self.strategy, self.summing = world, strategy, summing
        self.refused = ""
        with TemporaryDirectory() as folder:
            recorder = Recorder(Path(folder))
            self.spec = self._spec(recorder, learning)
            self.model_state = make_model_state(self.spec)
            schedule = Schedule(plan or world.plan)
            self.session = VirtualSession(
                self.spec,
                schedule,
                self.model_state,
                world.costs,
                world.profile,
                hosts=world.hosts,
                lease_s=world.lease_s,
            )
            try:
                self._play()
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
                self.refused = f"{type(error).__name__}: {error}"
            recorder.close()
            self.data = recorder.path.read_bytes()

    def _spec(self, recorder: Recorder, learning: str) -> RunSpec:
        backend = {"_target_": BACKENDS[learning]}
        world, run_dir = self.world, recorder.path.parent
        job = msgspec.structs.replace(world.job, validation_samples=self.strategy.validation_samples)
        about = {"backend_spec": backend, "transport": world.transport, "summing": self.summing}
        return make_run_spec(job, self.strategy, recorder, run_dir, **about)

    def _play(self) -> None:
        session = self.session
        session.begin()
        for one in self.world.accidents:
            restarting = one.role == "server" or one.restarting
            unregister = partial(lose, session.supervisor, NodeId(one.role, one.id), restarting=restarting)
            session.clock.at(one.at_s, MESSAGE, unregister)
        for _ in range(MAX_STEPS):
            if session.over:
                break
            session.clock.step()
        else:
            raise RuntimeError(f"no end after {MAX_STEPS} steps, at t={session.clock.now:g}")
        self.refused = session.failure or ""
        session.end()

    @cached_property
    def lines(self) -> list[Line]:
        return [msgspec.json.decode(line) for line in self.data.splitlines()]

    def notes(self, kind: str) -> list[Line]:
        return [line for line in self.lines if line["kind"] == "note" and line["note"]["type"] == kind]

    def events(self, *kinds: str) -> list[Line]:
        return [line for line in self.lines if line["kind"] == "event" and line["event"]["type"] in kinds]

    @property
    def end(self) -> Line:
        return self.lines[-1]

    def uses(self) -> list[float]:
        """How often each sample is in the final parameters, those apart that are held out."""
        assert isinstance(self.model_state, RealModelState)
        uses: list[float] = np.delete(self.model_state.params, self.model_state.holdout.indices).tolist()
        return uses

    def misused(self) -> list[int]:
        """Samples that are held out and were trained on."""
        assert isinstance(self.model_state, RealModelState)
        held_out = self.model_state.holdout.indices
        return [int(sample) for sample in held_out if self.model_state.params[sample]]

    def write(self, run_dir: Path) -> Path:
        """A run's directory, as far as an analysis needs it."""
        job = {name: value for name, value in msgspec.structs.asdict(self.world.job).items() if name != "lr_at"}
        meta = {
            "schema": 1,
            "runtime": "virtual",
            "seed": self.world.job.seed,
            "plan_sha256": plan_sha256(self.world.plan),
            "job": {"strategy": "?", **job},
        }
        run_dir.mkdir()
        (run_dir / "meta.json").write_bytes(msgspec.json.encode(meta))
        (run_dir / "plan.json").write_bytes(plan_json(self.world.plan))
        (run_dir / "events.jsonl").write_bytes(self.data)
        return run_dir
