"""Cores as requests on emulated hosts: a weight in the group of the host, no quota, and idle cores are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.live.machines.doctor import missing
from tests.live.test_elastic import GROUPS, enforced
from tests.live.test_elastic_hosts import HOSTS
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.runs import DIGITS, Run

pytestmark = [pytest.mark.live, GROUPS]

CROWD = (
    *("strategy=or_autoscale", "strategy.cores_as=request", "strategy.cores_total=4", "strategy.slow_below=0.000001"),
    *("strategy.worker_cores=1", "strategy.server_cores=2", "strategy.unit_cores=0.1", "cluster.hosts.count=1"),
    *("cluster.num_workers=2", "topology.num_servers=1", "workload.epochs=null", "checkpoint_every_s=null"),
    *("runtime.telemetry_every_s=0.2", "cluster.device=null"),
)
"""A host of 0.4 cores whose two workers request 0.1 each, and whose server 0.2."""


@pytest.fixture(autouse=True)
def _hosts_here() -> None:
    if lack := missing("network") or missing("links"):
        pytest.skip(f"{lack.reason}; {lack.cure}")


def directory(run: Run, role: str, number: int) -> Path:
    """The control group of a task, with the files of the processor."""
    for line in Path(f"/proc/{run.pid_of(role, number)}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for found in (Path("/sys/fs/cgroup", *names.split(",")[:1], path[1:]), Path(f"/sys/fs/cgroup{path}")):
            if "stragglab-" in path and any((found / name).exists() for name in ("cpu.shares", "cpu.weight")):
                return found
    raise AssertionError("the task is in no group of a run")


def weight(group: Path) -> int:
    file = group / "cpu.weight"
    return int((file if file.exists() else group / "cpu.shares").read_text())


def is_unlimited(group: Path) -> bool:
    file = group / "cpu.max"
    text = file.read_text() if file.exists() else (group / "cpu.cfs_quota_us").read_text()
    return text.split()[0] in ("max", "-1")


def test_tasks_have_shares_in_proportion_and_use_what_others_leave_idle(start: Start) -> None:
    """A limit of 0.1 cores could not be passed for seconds; here nobody is at all of it all the time."""
    run = start("run", *DIGITS, *HOSTS, *CROWD)
    run.await_that(lambda: len(enforced(run, "request_cores")) == 3, "all requests")
    held = dict(enforced(run, "request_cores"))
    assert held == {
        "worker:0": pytest.approx(0.1, rel=0.01),
        "worker:1": pytest.approx(0.1, rel=0.01),
        "server:0": pytest.approx(0.2, rel=0.01),
    }
    groups = {name: directory(run, *name) for name in (("worker", 0), ("worker", 1), ("server", 0))}
    assert all(map(is_unlimited, groups.values()))
    assert weight(groups["server", 0]) == 2 * weight(groups["worker", 0]) == 2 * weight(groups["worker", 1])

    def most() -> float:
        uses = [use for event in run.events("Observed") for use in event["nodes"] if use["node"].startswith("worker")]
        return max((use.get("cpu_cores") or 0.0 for use in uses), default=0.0)

    run.await_that(lambda: most() > 0.13, "a worker that uses more than its request")
    assert run.unregister(("worker", 1))
    run.await_events("Joined")
    assert weight(directory(run, "worker", 1)) == weight(groups["worker", 0]), "its next incarnation has it, too"
    run.interrupt()
    assert enforced(run, "cpu_cores") == []
    assert problems(run.lines()) == []
