"""Random labs of jobs that share hosts, in full detail and with jumps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from random import Random
from typing import Any

import msgspec

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.core.job import Job
from runtime.core.jumping.jumps import Measured
from runtime.virtual.clock import Clock
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.lab import VirtualLab
from runtime.virtual.machines.sites import sites_of_hosts, tasks_of
from runtime.virtual.machines.tenancy import Tenancy
from runtime.virtual.tasks.model_state import NoLearner
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.basic.static_x import StaticX
from strategies.protocol import Strategy
from tests.support.harness import make_job, make_run_spec

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "bsp": BSP,
    "asp_even": partial(ASP, data="even"),
    "asp": partial(ASP, data="dynamic"),
    "ssp": SSP,
    "static_x": StaticX,
}
COSTS = Costs(
    compute_per_sample_s=0.4e-3,
    compute_base_s=0.01,
    jitter_sigma=0.05,
    jitter_rho=0.5,
    data_per_sample_s=0.05e-3,
    control_s=1e-4,
    latency_s=1e-4,
    carry_per_byte_s=2e-10,
    transfer_per_byte_s=1e-10,
    update_per_byte_s=3e-10,
    link_bytes_per_s=1e9,
)
HORIZON_S = 1e7


class Nobody:
    """A record that nobody reads."""

    def event(self, *about: Any) -> None: ...

    def note(self, *about: Any, **fields: Any) -> None: ...


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a lab."""

    name: str
    strategy: str
    start_s: float
    job: Job
    hosts: Hosts
    parameters: int
    schedule: Schedule
    lease_s: float = inf


def draw_hosts(seed: int, count: int) -> dict[str, Any]:
    random = Random(f"{seed}/hosts")
    return {"count": count, "cpu_cores": random.choice((4.0, 8.0)), "link_mbps": random.choice((2000.0, 8000.0))}


def draw_lab(
    seed: int,
    *,
    jobs: int,
    hosts: int,
    rounds: tuple[int, int] = (200, 600),
    gap_s: float = 20.0,
    workers: tuple[int, int] = (2, 8),
    strategies: Sequence[str] = tuple(STRATEGIES),
    disturbed: float = 0.3,
) -> list[Drawn]:
    """``gap_s``: mean time between two arrivals; ``disturbed``: part of the jobs with a plan of their own."""
    random, found, at_s = Random(f"{seed}/lab"), [], 0.0
    spec = draw_hosts(seed, hosts)
    for number in range(jobs):
        num_workers, num_servers = random.randint(*workers), random.randint(1, 2)
        batch = random.choice((16, 32, 64))
        per_epoch = random.randint(20, 80) * num_workers * batch + random.randint(0, num_workers * batch)
        epochs = max(1, round(random.randint(*rounds) * num_workers * batch / per_epoch))
        job = make_job(
            num_workers=num_workers,
            num_servers=num_servers,
            num_samples=per_epoch,
            global_batch_samples=num_workers * batch,
            epochs=epochs,
            max_time_s=HORIZON_S,
            seed=seed * 1000 + number,
        )
        placement: list[list[str]] = [[] for _ in range(hosts)]
        for task in tasks_of(num_workers, num_servers):
            random.choice(placement).append(task)
        found.append(
            Drawn(
                name=f"job{number}",
                strategy=random.choice(list(strategies)),
                start_s=at_s,
                job=job,
                hosts=parse_hosts({**spec, "placement": placement}, num_workers, num_servers),
                parameters=random.choice((500_000, 1_000_000, 3_000_000)),
                schedule=draw_schedule(random, num_workers, disturbed),
            )
        )
        at_s += random.expovariate(1 / gap_s)
    return found


def draw_schedule(random: Random, num_workers: int, disturbed: float) -> Schedule:
    windows = []
    if random.random() < disturbed:
        for _ in range(random.randint(1, 3)):
            begin_s = random.uniform(0, 60)
            kind, magnitude = random.choice((("slowdown", 1.0), ("delay", 0.05), ("cpu", 0.5)))
            target = f"worker:{random.randrange(num_workers)}"
            about = {"start_s": begin_s, "end_s": begin_s + random.uniform(5, 40), "target": target}
            windows.append(Disturbance(**about, kind=kind, magnitude=magnitude))  # type: ignore[arg-type]
    return Schedule(build_plan("drawn", 0, HORIZON_S, windows))


def run_lab(
    drawn: Sequence[Drawn], measured: Measured | None, record: Callable[[Drawn], Any] = lambda one: Nobody()
) -> dict[str, Outcome]:
    lab = VirtualLab(sites_of_hosts(drawn[0].hosts, COSTS), measured=measured)
    for one in drawn:
        lab.add(one.name, partial(session_of, one, record(one)), one.start_s)
    return lab.run()


def session_of(one: Drawn, record: Any, clock: Clock, tenancy: Tenancy | None) -> VirtualSession:
    return VirtualSession(
        make_run_spec(one.job, STRATEGIES[one.strategy](), record),
        one.schedule,
        NoLearner(one.parameters, None),
        COSTS,
        None,
        hosts=one.hosts,
        lease_s=one.lease_s,
        clock=clock,
        tenancy=tenancy,
    )
