"""Several jobs in one lab: each as it is alone, unless they share machines."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.core.job import Job
from runtime.errors import ConfigError
from runtime.record.recorder import Recorder
from runtime.virtual.clock import START, Clock
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.lab import VirtualLab
from runtime.virtual.machines.sites import sites_of_hosts
from runtime.virtual.machines.tenancy import Tenancy
from runtime.virtual.runtime import make_model_state
from runtime.virtual.tasks.model_state import NoModelState
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from tests.support.harness import make_job, make_run_spec
from tests.support.labs import run_alone
from tests.support.long_tests import long_after
from tests.support.virtual_runs import BACKENDS, World, draw_host_world, draw_world
from tests.unit.virtual.test_virtual_session import Tape, session, virtual_job

LATER_S = 17.3
"""No binary fraction: sums with it are rounded."""


class Recorded:
    """One job of a world, which writes its record to a directory of its own."""

    def __init__(self, world: World, strategy: Strategy, run_dir: Path) -> None:
        run_dir.mkdir()
        self.world, self.recorder = world, Recorder(run_dir)
        self.spec = make_run_spec(
            world.job,
            strategy,
            self.recorder,
            run_dir,
            backend_spec={"_target_": BACKENDS["ledger"]},
            transport=world.transport,
        )

    def session(self, clock: Clock | None = None, tenancy: Tenancy | None = None) -> VirtualSession:
        world, model_state = self.world, make_model_state(self.spec)
        return VirtualSession(
            self.spec,
            Schedule(world.plan),
            model_state,
            world.costs,
            world.profile,
            hosts=world.hosts,
            lease_s=world.lease_s,
            clock=clock,
            tenancy=tenancy,
        )

    def record(self) -> bytes:
        self.recorder.close()
        return self.recorder.path.read_bytes()


def finished(job: Recorded, outcome: Outcome) -> tuple[bytes, str]:
    assert outcome.status == "done"
    return job.record(), outcome.parameters_sha256


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", long_after(range(1, 7), 1))
@pytest.mark.parametrize("start_s", long_after([LATER_S, 1e6 + 1 / 3, 0.0], 2))
def test_a_job_with_its_own_machines_is_the_same_in_company_and_later(
    tmp_path: Path, start_s: float, seed: int
) -> None:
    worlds = {"a": draw_host_world(4, seed), "b": draw_world(3, seed)}
    strategies: dict[str, Callable[[], Strategy]] = {"a": BSP, "b": ASP}
    alone = {}
    for name, world in worlds.items():
        job = Recorded(world, strategies[name](), tmp_path / f"alone-{name}")
        alone[name] = finished(job, run_alone(job.session()))
    together = {name: Recorded(world, strategies[name](), tmp_path / name) for name, world in worlds.items()}
    lab = VirtualLab()
    lab.add("b", together["b"].session, start_s)
    lab.add("a", together["a"].session, start_s / 2)
    outcomes = lab.run()
    assert {name: finished(job, outcomes[name]) for name, job in together.items()} == alone


def calm_session(clock: Clock) -> VirtualSession:
    return session(BSP(), virtual_job(2, 20), Costs(compute_base_s=0.25), device=None, clock=clock)[0]


class Adding:
    """Adds a job a second after the one before has ended."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.sessions, self.interrupts = names, list[weakref.ref[VirtualSession]](), list[int]()
        self.lab = VirtualLab(submitter=self)

    @property
    def to_come(self) -> bool:
        return bool(self.names) and not any(self.interrupts)

    def look(self, interrupted_by: int) -> None:
        self.interrupts.append(interrupted_by)

    def start(self, outcome: Outcome | None = None) -> None:
        if self.names:
            self.lab.add(self.names.pop(0), self.make, self.lab.timeline.moment[0] + 1.0, self.start)

    def make(self, clock: Clock, tenancy: Tenancy | None) -> VirtualSession:
        session = calm_session(clock)
        clock.at(1e9, START, session.interrupt, 0)  # as timers of jobs that are over long before
        self.sessions.append(weakref.ref(session))
        return session


def test_jobs_join_while_the_lab_runs_and_are_let_go() -> None:
    adding = Adding(["a", "b", "c"])
    adding.start()
    outcomes = adding.lab.run()
    assert [outcomes[name].t for name in "abc"] == [2.5] * 3
    assert adding.lab.timeline.moment[0] == 3 * 3.5
    gc.collect()
    assert [reference() for reference in adding.sessions] == [None] * 3


def test_an_interrupt_ends_those_that_have_started() -> None:
    lab = VirtualLab()
    job = virtual_job(2, 20, epochs=None)
    specs = [make_run_spec(job, BSP(), Tape()) for _ in range(3)]

    def make(number: int, clock: Clock) -> VirtualSession:
        clock.at(3.0, START, os.kill, os.getpid(), signal.SIGINT) if number == 0 else None
        costs = Costs(compute_base_s=0.25)
        return VirtualSession(specs[number], NOTHING, NoModelState(0, None), costs, None, clock=clock)

    for number, start_s in enumerate((0.0, 2.0, 1e6)):
        lab.add(f"j{number}", lambda clock, _, number=number: make(number, clock), start_s)
    outcomes = lab.run()
    assert {name: outcome.status for name, outcome in outcomes.items()} == {"j0": "interrupted", "j1": "interrupted"}
    assert [spec.interrupted_by for spec in specs] == [signal.SIGINT, signal.SIGINT, 0]
    assert [outcome.t for outcome in outcomes.values()] == [3.0, 0.75], "no other event comes: it may take long"


NOTHING = Schedule(build_plan("nothing", 0, 1e6, []))
ROUNDS = 10
WORK_S = 0.5
"""Core-seconds of one iteration."""


def one_host(job: Job, cores: float) -> Hosts:
    return parse_hosts({"count": 1, "cpu_cores": cores}, job.num_workers, job.num_servers)


class Shared:
    """Jobs of one worker each, bound by the processor of the one host that all share."""

    def __init__(self, cores: float = 1.0) -> None:
        self.job = make_job(
            num_workers=1, num_servers=1, num_samples=ROUNDS, global_batch_samples=1, epochs=1, max_time_s=1e4
        )
        self.costs = Costs(compute_base_s=WORK_S)
        self.hosts = one_host(self.job, cores)
        self.lab = VirtualLab(sites_of_hosts(self.hosts, self.costs))

    def add(self, name: str, start_s: float = 0.0, schedule: Schedule = NOTHING) -> Tape:
        tape = Tape()
        spec = make_run_spec(self.job, BSP(), tape)

        def make(clock: Clock, tenancy: Tenancy | None) -> VirtualSession:
            model_state = NoModelState(0, None)
            return VirtualSession(
                spec, schedule, model_state, self.costs, None, hosts=self.hosts, clock=clock, tenancy=tenancy
            )

        self.lab.add(name, make, start_s)
        return tape


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_jobs_on_one_host_have_equal_shares_of_its_processor(jobs: int) -> None:
    """Quotas of 10 ms let a little through at once (runtime/virtual/machines/quotas.py), hence the tolerance."""
    shared = Shared()
    for number in range(jobs):
        shared.add(f"j{number}")
    ends_s = [outcome.t for outcome in shared.lab.run().values()]
    assert ends_s == pytest.approx([jobs * ROUNDS * WORK_S] * jobs, abs=0.02)


def paused(target: str) -> Schedule:
    window = Disturbance(start_s=1.0, end_s=3.0, target=target, kind="pause", magnitude=1)
    return Schedule(build_plan("test", 0, 1e4, [window]))


def test_a_pause_of_one_job_leaves_the_processor_to_the_other() -> None:
    """Of 5 core-seconds each has half of one at 1 s; b has 2.5 at 3 s, and ends at 8 s, when a has 3."""
    shared = Shared()
    shared.add("a", schedule=paused("worker:0"))
    shared.add("b")
    assert {name: outcome.t for name, outcome in shared.lab.run().items()} == pytest.approx({"a": 10, "b": 8}, abs=0.05)


def test_a_plan_may_not_disturb_a_shared_host() -> None:
    shared = Shared()
    shared.add("a", schedule=paused("host:0"))
    with pytest.raises(ConfigError, match=r"host:0.* shares"):
        shared.lab.run()


def test_jobs_of_one_name_are_refused() -> None:
    lab = VirtualLab()
    lab.add("a", lambda clock, _: calm_session(clock))
    with pytest.raises(ValueError, match="name=a"):
        lab.add("a", lambda clock, _: calm_session(clock))
