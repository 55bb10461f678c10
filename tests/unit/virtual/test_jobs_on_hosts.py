"""Whole jobs on hosts: their records to the byte, whoever comes, goes and shares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from injectors.plan import build_plan
from injectors.schedule import Schedule
from runtime.cluster.hosts import parse_hosts
from runtime.record.columns import ColumnRecorder
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import load_costs
from runtime.virtual.lab import VirtualLab
from runtime.virtual.machines.sites import sites_of_hosts
from runtime.virtual.tasks.model_state import NoModelState
from strategies.antdt.antdt_nd import AntDTND
from strategies.basic.asp import ASP
from strategies.basic.backup_workers import BackupWorkers
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.protocol import Strategy
from strategies.zeno_pp import ZenoPP
from tests.support.harness import make_job, make_run_spec
from tests.support.kernel_snapshots import digest, stored
from tests.support.labs import run_alone
from tests.support.long_tests import long_after
from tests.support.virtual_runs import VirtualRun, draw_host_world, draw_replica_world, draw_world
from tests.unit.virtual.test_virtual_elastic import stormy
from tests.unit.virtual.test_virtual_lab import Recorded

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "asp": lambda: ASP(data="dynamic"),
    "bsp": BSP,
    "ssp": lambda: SSP(bound=2),
    "backup_workers": lambda: BackupWorkers(num_backup=1),
    "antdt_nd": AntDTND,
    "zeno_pp": lambda: ZenoPP(discard=False),
}
SOME = long_after(range(1, 5), always=1)


@pytest.mark.parametrize("seed", SOME)
@pytest.mark.parametrize("name", long_after(STRATEGIES, always=2))
def test_workers_and_servers_are_killed_paused_throttled_and_cut_off(name: str, seed: int) -> None:
    assert digest(VirtualRun(draw_host_world(4, seed), STRATEGIES[name]()).data) == stored()["jobs"][f"{name}/{seed}"]


@pytest.mark.few(2)
@pytest.mark.parametrize("failover", ["shards", "checkpoint"])
@pytest.mark.parametrize("seed", long_after(range(3), always=1))
def test_nodes_come_and_go_and_parameters_move(seed: int, failover: str) -> None:
    run, strategy = stormy(seed, failover, on_hosts=True)
    assert digest(run.data) == stored()["stormy"][f"{seed}/{failover}"]
    assert strategy.counts.total()


@pytest.mark.parametrize("seed", long_after(range(1, 7), always=2))
def test_replicas(seed: int) -> None:
    assert digest(VirtualRun(draw_replica_world(3, seed), BSP()).data) == stored()["replicas"][str(seed)]


class Company:
    """Three jobs of different kinds on the same hosts; the second and third start later, at no binary fraction."""

    STARTS_S = (0.0, 3.7, 17.3)

    def __init__(self, seed: int, run_dir: Path) -> None:
        world = draw_host_world(4, 3 * seed + 1)
        assert world.hosts is not None
        self.lab = VirtualLab(sites_of_hosts(world.hosts, world.costs))
        self.jobs: dict[str, Recorded] = {}
        kinds: tuple[Callable[[], Strategy], ...] = (BSP, lambda: ASP(data="dynamic"), lambda: SSP(bound=1))
        for number, (kind, start_s) in enumerate(zip(kinds, self.STARTS_S, strict=True)):
            drawn = draw_world(4, seed + 10 * number)
            job = msgspec.structs.replace(drawn.job, num_servers=world.job.num_servers)
            tasks = {str(node) for node in job.start_layout.nodes}
            own = [one for one in world.plan.disturbances if one.target in tasks]  # it disturbs nobody else
            plan = build_plan("own tasks", seed, drawn.job.max_time_s, own if number % 2 else [])
            about = {"job": job, "plan": plan, "hosts": world.hosts, "transport": "tcp", "accidents": ()}
            one = msgspec.structs.replace(drawn, **about, lease_s=world.lease_s)
            self.jobs[f"j{number}"] = made = Recorded(one, kind(), run_dir / f"j{number}")
            self.lab.add(f"j{number}", made.session, start_s)

    def records(self) -> dict[str, bytes]:
        outcomes = self.lab.run()
        assert {outcome.status for outcome in outcomes.values()} == {"done"}
        return {name: job.record() for name, job in self.jobs.items()}


@pytest.mark.parametrize("seed", long_after(range(1, 4), always=1))
def test_jobs_that_share_hosts(seed: int, tmp_path: Path) -> None:
    for name, record in Company(seed, tmp_path).records().items():
        assert digest(record) == stored()["company"][f"{seed}/{name}"], name


def rows_of(strategy: Strategy, run_dir: Path, telemetry_every_s: float | None = None) -> list[bytes]:
    """Files of a job with ``record=iterations`` on four hosts."""
    run_dir.mkdir()
    recorder, costs = ColumnRecorder(run_dir), load_costs("hosts_tcp").values
    job = make_job(num_workers=5, num_servers=3, num_samples=3200, global_batch_samples=160, epochs=1, max_time_s=1e6)
    hosts = parse_hosts({"count": 4, "cpu_cores": 4.0, "real_cores_per_core": 0.1, "link_mbps": 100}, 5, 3)
    session = VirtualSession(
        make_run_spec(job, strategy, recorder, run_dir),
        Schedule(build_plan("none", 0, 1e6, ())),
        NoModelState(75_000, None),
        costs,
        None,
        hosts=hosts,
        telemetry_every_s=telemetry_every_s,
    )
    run_alone(session)
    recorder.close()
    return [path.read_bytes() for path in sorted(run_dir.iterdir())]


@pytest.mark.parametrize("telemetry_every_s", [None, 0.01])
@pytest.mark.parametrize("name", ["asp", "bsp"])
def test_rows(name: str, telemetry_every_s: float | None, tmp_path: Path) -> None:
    files = rows_of(STRATEGIES[name](), tmp_path / "run", telemetry_every_s)
    assert len(files) == 2
    assert digest(b"".join(files)) == stored()["rows"][f"{name}/{telemetry_every_s}"]
