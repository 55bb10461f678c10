"""Emulated hosts whose tasks come and go: each in the network and within the quota of one, and gone without a trace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runtime.live.machines.doctor import missing
from tests.live.test_disturbances import write_plan
from tests.live.test_elastic import GROW, SCRIPTED, SHRINK, holders, steps
from tests.live.test_faults import PACED
from tests.live.test_hosts import listening, namespace
from tests.support.exact import ALLOW, end_exactly
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.runs import LEDGER, Run

pytestmark = pytest.mark.live

HOSTS = ("cluster=hosts", "cluster.hosts.cpu_cores=4", "cluster.hosts.real_cores_per_core=0.1")
SMALL = ("cluster.num_workers=2", "topology.num_servers=1")
SWITCHING = (*LEDGER, *HOSTS, *PACED, *SCRIPTED, *SMALL, "save_parameters=true")
ENDLESS = (*SWITCHING, "workload.epochs=null")


@pytest.fixture(autouse=True)
def _hosts_here() -> None:
    if lack := missing("network") or missing("links"):
        pytest.skip(f"{lack.reason}; {lack.cure}")


def places(run: Run) -> dict[str, str]:
    """The host of every task, as the strategy learns it."""
    joined = {f"worker:{event['worker']}": event["place"] for event in run.events("Joined")}
    servers = {f"server:{event['server']}": event["place"] for event in run.events("ServerJoined")}
    return {**run.events("Started")[0]["places"], **joined, **servers}


def group(run: Run, worker: int) -> str:
    """The control group that a worker is in."""
    found = re.search(r"stragglab-\S+", Path(f"/proc/{run.pid_of('worker', worker)}/cgroup").read_text())
    assert found is not None
    return found[0]


@pytest.mark.long(like="test_a_newcomer_is_on_its_host_and_returns_there_after_a_kill")
@pytest.mark.parametrize("latency_ms", [1, pytest.param(0, marks=pytest.mark.long)])
def test_a_job_grows_and_shrinks_and_uses_every_sample_once(start: Start, latency_ms: int) -> None:
    """With latency every newcomer needs a way through the relay, where the kernel has no netem."""
    orders = ("workers 4", *GROW, "workers 3", *SHRINK, "workers 2", "wait 5")
    latency = f"cluster.hosts.latency_ms={latency_ms}"
    run = start("run", *SWITCHING, latency, "strategy.rule=asp", "workload.epochs=12", steps(*orders), env=ALLOW)
    run.finish()
    assert run.finished["status"] == "done"
    assert (run.parameters() == 12).all()
    assert holders(run) == [[0, 1, 2, 3], [0]]
    assert {(event["worker"], event["cause"]) for event in run.events("Lost")} == {(2, "retired"), (3, "retired")}
    assert {event["grad"]["worker"] for event in run.events("Arrived")} == {0, 1, 2, 3}
    at = places(run)
    assert [at[f"worker:{number}"] for number in range(4)] == ["host:0", "host:1", "host:2", "host:0"]
    assert [at[f"server:{number}"] for number in range(4)] == ["host:3", "host:1", "host:2", "host:3"]
    assert problems(run.lines()) == []


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
@pytest.mark.parametrize("latency_ms", [1, pytest.param(0, marks=pytest.mark.long)])
def test_replicas_come_and_go_on_hosts(start: Start, tmp_path: Path, latency_ms: int) -> None:
    words = write_plan(tmp_path / "plan.csv", (0.5, 0.1, "worker:3", "join", 1), (1.0, 0.1, "worker:0", "leave", 1))
    replicas = ("topology=allreduce", "strategy=lb_bsp", f"cluster.hosts.latency_ms={latency_ms}")
    shape = ("cluster.num_workers=3", "workload.epochs=null", "save_parameters=true")
    run = start("run", *LEDGER, *HOSTS, *PACED, *shape, *replicas, *words)
    run.await_events("Joined")
    run.await_events("Lost")
    assert places(run)["worker:3"] == "host:3"
    run.await_progress(10)
    end_exactly(run)
