"""Emulated hosts whose tasks come and go: each in the network and within the quota of one, and gone without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.live.machines.doctor import missing
from tests.live.test_disturbances import write_plan
from tests.live.test_elastic import GROUPS, SCRIPTED, enforced, steps
from tests.live.test_faults import PACED
from tests.live.test_hosts import listening, namespace
from tests.support.exact import ALLOW, end_exactly
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.runs import DIGITS, LEDGER, Run
from tests.support.task_groups import group_of, quota_of

pytestmark = pytest.mark.live

HOSTS = ("cluster=hosts", "cluster.hosts.cpu_cores=4", "cluster.hosts.real_cores_per_core=0.1")
SMALL = ("cluster.num_workers=2", "topology.num_servers=1")
SWITCHING = (*LEDGER, *HOSTS, *PACED, *SCRIPTED, *SMALL, "save_parameters=true")
ENDLESS = (*SWITCHING, "workload.epochs=null")
LATE = "cluster.hosts.latency_ms=1"


@pytest.fixture(autouse=True)
def _hosts_here() -> None:
    if lack := missing("network") or missing("links"):
        pytest.skip(f"{lack.reason}; {lack.cure}")


def places(run: Run) -> dict[str, str]:
    """The host of every task, as the strategy learns it."""
    joined = {f"worker:{event['worker']}": event["place"] for event in run.events("Joined")}
    servers = {f"server:{event['server']}": event["place"] for event in run.events("ServerJoined")}
    return {**run.events("Started")[0]["places"], **joined, **servers}


def test_a_newcomer_is_on_its_host_and_returns_there_after_a_kill(start: Start) -> None:
    """Host 2 is the first without a task that is not excluded. It holds worker 2, and then server 1."""
    more = ("strategy.rule=asp", "strategy.not_on=['host:0','host:1','host:3']")
    run = start("run", *ENDLESS, *more, steps("wait 3", "workers 3", "servers 2", "divide 2", "wait 300"), env=ALLOW)
    run.await_events("Restored")
    assert (places(run)["worker:2"], places(run)["server:1"]) == ("host:2", "host:2")
    home = namespace(run.pid_of("server", 1))
    assert home == namespace(run.pid_of("worker", 2))
    assert home not in {namespace(run.pid_of(*key)) for key in [("worker", 0), ("worker", 1), ("server", 0)]}
    assert len(listening(run.pid_of("server", 1))) == 1
    assert run.unregister(("worker", 2))
    run.await_events("Joined", 2)
    assert run.unregister(("server", 1))
    run.await_events("Restored", 2)
    run.await_progress(10)
    assert namespace(run.pid_of("worker", 2)) == namespace(run.pid_of("server", 1)) == home
    end_exactly(run)


@pytest.mark.long(like="test_a_newcomer_is_on_its_host_and_returns_there_after_a_kill")
def test_replicas_come_and_go_on_hosts(start: Start, tmp_path: Path) -> None:
    words = write_plan(tmp_path / "plan.csv", (0.5, 0.1, "worker:3", "join", 1), (1.0, 0.1, "worker:0", "leave", 1))
    replicas = ("topology=allreduce", "strategy=lb_bsp", LATE)
    shape = ("cluster.num_workers=3", "workload.epochs=null", "save_parameters=true")
    run = start("run", *LEDGER, *HOSTS, *PACED, *shape, *replicas, *words)
    run.await_events("Joined")
    run.await_events("Lost")
    assert places(run)["worker:3"] == "host:3"
    run.await_progress(10)
    end_exactly(run)


CROWD = (
    *("strategy=or_autoscale", "strategy.cores_as=request", "strategy.cores_total=4", "strategy.slow_below=0.000001"),
    *("strategy.worker_cores=1", "strategy.server_cores=2", "strategy.unit_cores=0.1", "cluster.hosts.count=1"),
    *("cluster.num_workers=2", "topology.num_servers=1", "workload.epochs=null", "checkpoint_every_s=null"),
    *("runtime.telemetry_every_s=0.2", "cluster.device=null"),
)
"""A host of 0.4 cores whose two workers request 0.1 each, and whose server 0.2."""


def weight(group: Path) -> int:
    file = group / "cpu.weight"
    return int((file if file.exists() else group / "cpu.shares").read_text())


@pytest.mark.long(like="test_a_newcomer_is_on_its_host_and_returns_there_after_a_kill")
@GROUPS
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
    pids = {name: run.pid_of(*name) for name in (("worker", 0), ("worker", 1), ("server", 0))}
    assert not any(map(quota_of, pids.values()))
    groups = {name: group_of(pid) for name, pid in pids.items()}
    assert weight(groups["server", 0]) == 2 * weight(groups["worker", 0]) == 2 * weight(groups["worker", 1])

    def most() -> float:
        uses = [use for event in run.events("Observed") for use in event["nodes"] if use["node"].startswith("worker")]
        return max((use.get("cpu_cores") or 0.0 for use in uses), default=0.0)

    run.await_that(lambda: most() > 0.13, "a worker that uses more than its request")
    assert run.unregister(("worker", 1))
    run.await_events("Joined")
    assert weight(group_of(run.pid_of("worker", 1))) == weight(groups["worker", 0]), "its next incarnation has it, too"
    run.interrupt()
    assert enforced(run, "cpu_cores") == []
    assert problems(run.lines()) == []
