"""Restarts in sets of jobs as real processes: the cluster says where, and every job stays exact."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from runtime.live.machines.cgroups import find
from tests.live.test_disturbances import write_plan
from tests.live.test_live_job_sets import assert_all_exact, begin, entry, hosts, record_of  # noqa: F401  (a fixture)
from tests.support.exact import ALLOW
from tests.support.job_sets import gpu_violations, notes_of, table_of
from tests.support.leaks import Start
from tests.support.runs import CONF, RecordSink, Run

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

PACED = ("cluster.device={base_s:0.02,per_sample_s:0}", "placement=pack", "draw=false")
RESTARTING = (*PACED, *CONF, "strategy=restarting")
PENDING = "scheduler.pending_s=0.4"
ON_THREE = ("cluster.hosts.count=3", "cluster.hosts.real_cores_per_core=0.13")


def with_settings(job: str, *settings: str) -> str:
    return job.replace("}", f", settings: [{','.join(repr(one) for one in settings)}]}}")


def orders(*given: str) -> str:
    """When which node is restarted; ``orders=[...]`` of the strategy that restarts on request."""
    return f"strategy.orders=[{','.join(repr(one) for one in given)}]"


def moves(run: Run) -> list[tuple[str, str, int]]:
    """(job, task, number of its next host), as the cluster's record has them."""
    return [(note["job"], note["task"], note["host"]) for note in notes_of(run.run_dir) if note["type"] == "Moved"]


def pid_of(record: RecordSink, role: str, number: int) -> int:
    """The process of the newest incarnation of a task."""
    return [note["pid"] for note in record.notes("Launched") if (note["role"], note["id"]) == (role, number)][-1]


def injected_s(record: RecordSink, worker: int) -> list[tuple[float, float]]:
    """(when a gradient of this worker came, seconds of delay by the plan)."""
    arrived = [event for event in record.events("Arrived") if event["grad"]["worker"] == worker]
    return [(event["t"], event["timings"]["injected_s"]) for event in arrived if event["grad"]["samples"]]


def host_of(pid: int) -> str:
    """The emulated host of a process, by its control groups."""
    groups = Path(f"/proc/{pid}/cgroup").read_text()
    (host,) = {part for line in groups.splitlines() for part in line.split("/") if part.startswith("host-")}
    return host


def groups_on(host: int, pid: int) -> set[str]:
    """The control groups of tasks on a host of the run of this process."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    (run,) = {part for line in lines for part in line.split("/") if part.startswith("stragglab-")}
    return {path.name for path in (find("cpu").base / run / f"host-{host}").iterdir() if path.is_dir()}


def test_restarted_tasks_go_where_the_cluster_says(start: Start) -> None:
    """A worker goes to the host that ``pack`` fills with it, a server to one with room; the neighbour is untouched."""
    jobs = (entry("a", 0, 2, 5), with_settings(entry("b", 0, 1, 3), orders()))
    words = (*RESTARTING, *ON_THREE, PENDING, orders("worker:1@0.6", "server:0@2.0"))
    run = begin(start, *jobs, words=words, env=ALLOW)
    a, b = record_of(run, "a"), record_of(run, "b")
    run.await_that(lambda: a.events("Joined") and b.events("Arrived"), "the worker's return")
    moved, there = pid_of(a, "worker", 1), pid_of(b, "worker", 0)
    assert [host_of(pid) for pid in (moved, there)] == ["host-1"] * 2
    assert len({os.readlink(f"/proc/{pid}/ns/net") for pid in (moved, there)}) == 1, "the network of its next host"
    assert groups_on(0, moved) == {"j0-server-0", "j0-worker-0"}, "the group that it has left is gone"
    assert groups_on(1, moved) == {"j0-worker-1-1", "j1-server-0", "j1-worker-0"}
    run.finish()
    assert moves(run) == [("a", "worker:1", 1), ("a", "server:0", 2)]
    assert [(note["task"], note["host"]) for note in a.notes("Moved")] == [
        ("worker:1", "host:1"),
        ("server:0", "host:2"),
    ]
    (lost,), (joined,) = a.events("Lost"), a.events("Joined")
    assert joined["t"] - lost["t"] >= 0.4, "its own scheduler says how long it is pending"
    assert a.events("Restored")[0]["t"] - a.events("ServerLost")[0]["t"] >= 0.4
    assert not b.notes("Moved")
    assert not b.events("Lost")
    assert_all_exact(run, [2, 2, 2], {"a": 5.0, "b": 3.0})
    assert gpu_violations(notes_of(run.run_dir), [2, 0, 2]), "what is used twice would be seen"


@pytest.mark.long(like="test_restarted_tasks_go_where_the_cluster_says")
def test_a_job_that_is_preempted_while_a_restart_is_pending(start: Start) -> None:
    """All of its tasks come back together, on the places that it has then: nobody waits for the place of before."""
    jobs = (entry("long", 0, 2, 10), with_settings(entry("other", 0, 3, 8), orders()))
    jobs += (with_settings(entry("short", 4.5, 2, 2), orders()),)
    words = (*RESTARTING, *ON_THREE, "scheduler.pending_s=600", "policy=srtf", orders("worker:1@0.6"))
    run = begin(start, *jobs, words=words, env=ALLOW)
    run.finish(100.0)
    assert table_of(run.run_dir).preemptions.to_dict() == {"long": 1, "other": 0, "short": 0}
    assert moves(run) == [("long", "worker:1", 1)]
    record = record_of(run, "long")
    (back,) = record.notes("Resumed")
    placed = [note for note in notes_of(run.run_dir) if note["type"] == "Placed" and note["job"] == "long"]
    assert [back["places"][f"worker:{number}"] for number in (0, 1)] == [
        f"host:{host}" for host in placed[1]["workers"]
    ]
    assert_all_exact(run, [2, 2, 2], {"long": 10.0, "other": 8.0, "short": 2.0})


def test_kills_and_crashes_are_those_of_one_job(start: Start, tmp_path: Path) -> None:
    """One survives what its plan kills, one does not, and one has a worker that crashes; all return to their hosts."""
    plan = write_plan(tmp_path / "plan.csv", (0.4, 0.3, "worker:1", "kill", 1), (1.2, 0.3, "server:0", "kill", 1))
    survives = with_settings(entry("survives", 0, 2, 3), *plan, "max_losses=2")
    ends = with_settings(entry("ends", 0, 2, 300), *plan, "max_losses=1")
    crashes = with_settings(entry("crashes", 0, 1, 2), "max_losses=1")
    run = begin(start, survives, ends, crashes, words=(*PACED, *ON_THREE, "checkpoint_every_s=0.3"))
    crashing = record_of(run, "crashes")
    run.await_that(lambda: len(crashing.events("Arrived")) > 5, "gradients")
    was_on = host_of(pid := pid_of(crashing, "worker", 0))
    os.kill(pid, signal.SIGKILL)
    run.await_that(lambda: crashing.events("Joined"), "the worker's return")
    assert host_of(pid_of(crashing, "worker", 0)) == was_on
    assert "1 of 3 jobs are not done: job ends failed" in run.fail()
    assert (
        record_of(run, "ends")
        .finished["reason"]
        .endswith("server 0 is lost (killed by the plan), and max_losses=1 is used up")
    )
    assert table_of(run.run_dir).status.to_dict() == {"survives": "done", "ends": "failed", "crashes": "done"}
    survivor = record_of(run, "survives")
    assert [event["worker"] for event in survivor.events("Joined")] == [1]
    assert len(survivor.events("Restored")) == 1
    assert moves(run) == []
    assert not any(record_of(run, job).notes("Moved") for job in ("survives", "ends", "crashes"))
    assert_all_exact(run, [2, 2, 2], {"survives": 3.0, "crashes": 2.0})


@pytest.mark.long(like="test_restarted_tasks_go_where_the_cluster_says")
@pytest.mark.parametrize("victim", ["outer", "inner"])
def test_a_driver_that_is_killed_while_a_restart_is_on_its_way_leaves_nothing(start: Start, victim: str) -> None:
    """The new group of the task has no process yet, and goes with the others."""
    jobs = (entry("a", 0, 2, 300), with_settings(entry("b", 0, 1, 300), orders()))
    words = (*RESTARTING, *ON_THREE, "scheduler.pending_s=600", orders("worker:1@0.4"))
    run = begin(start, *jobs, words=words, env=ALLOW)
    run.await_that(lambda: record_of(run, "a").notes("Moved"), "the order to move")
    os.kill(run.process.pid if victim == "outer" else run.innermost, signal.SIGKILL)
    assert run.wait()[0] != 0
    assert moves(run) == [("a", "worker:1", 1)]
    assert gpu_violations(notes_of(run.run_dir), [2, 2, 2]) == []
