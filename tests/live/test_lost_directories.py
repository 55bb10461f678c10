"""Real processes whose record is removed or renamed while they train: one line, and nothing of them remains."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.live.machines.doctor import missing
from tests.support.leaks import Start
from tests.support.runs import LEDGER

pytestmark = pytest.mark.live

ENDLESS = (*LEDGER, "cluster.num_workers=2", "cluster.device={base_s: 0.01}", "workload.epochs=null")
HOSTS = ("cluster=hosts", "cluster.hosts.count=2", "cluster.hosts.gpus=2", "cluster.hosts.real_cores_per_core=0.2")


def remove(path: Path) -> None:
    """As ``rm -rf``, again while the run still writes into it."""
    deadline = time.monotonic() + 60
    while path.exists() and time.monotonic() < deadline:
        shutil.rmtree(path, ignore_errors=True)


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


@pytest.mark.parametrize("go", [remove, pytest.param(move, marks=pytest.mark.long)])
def test_a_job(go: Callable[[Path], None], start: Start) -> None:
    run = start("run", *ENDLESS)
    run.await_training()
    go(run.run_dir)
    assert f"{run.run_dir}: was removed or renamed" in run.fail()
    assert not run.run_dir.exists()


@pytest.mark.long(like="test_a_job")
def test_a_set_of_jobs(start: Start) -> None:
    for name in ("network", "links", "cgroup_cpu"):
        if lack := missing(name):
            pytest.skip(f"{lack.reason}; {lack.cure}")
    entries = ",".join(f"{{job: {job}, submit_s: 0, gpus: 2, servers: 1, iterations: 100000}}" for job in "ab")
    run = start("run", "jobs=list", *LEDGER, *HOSTS, "replay.max_iterations=null", f"jobs.entries=[{entries}]")
    run.await_that((run.run_dir / "jobs" / "a" / "events.jsonl").exists, "the first job")
    remove(run.run_dir)
    assert f"{run.run_dir}: was removed or renamed" in run.fail()
    assert not run.run_dir.exists()
