"""Sets of jobs as real processes: they share emulated hosts, and each is exact whatever becomes of the others."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.measures.cluster.checks import check_cluster
from analysis.measures.cluster.jobs import job_times
from analysis.records.cluster import load_cluster
from runtime.live.machines.cgroups import find
from runtime.live.machines.doctor import missing
from tests.live.test_disturbances import write_plan
from tests.support.exact import ALLOW
from tests.support.invariants import problems
from tests.support.job_sets import gpu_violations, notes_of, table_of
from tests.support.leaks import Start
from tests.support.runs import CONF, DIGITS, LEDGER, RecordSink, Run
from tests.support.task_groups import group_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

HOSTS = ("cluster=hosts", "cluster.hosts.count=2", "cluster.hosts.gpus=2", "cluster.hosts.real_cores_per_core=0.2")
WORDS = ("runtime=live", "jobs=list", *LEDGER, *HOSTS, "replay.use_every_s=0.1", "replay.max_iterations=null")
GPUS = [2, 2]


@pytest.fixture(autouse=True)
def hosts() -> None:
    for name in ("network", "links", "cgroup_cpu"):
        if lack := missing(name):
            pytest.skip(f"{lack.reason}; {lack.cure}")


def begin(start: Start, *entries: str, words: tuple[str, ...] = (), name: str = "run", **more: Any) -> Run:
    """Start a set of these jobs."""
    return start(name, *WORDS, f"jobs.entries=[{','.join(entries)}]", "save_parameters=true", *words, **more)


def entry(job: str, submit_s: float, gpus: int, epochs: int, servers: int = 1) -> str:
    """One job; the ledger has 2,000 samples, of which each worker takes 16 in an iteration."""
    iterations = round(epochs * 2000 / (16 * gpus))
    return f"{{job: {job}, submit_s: {submit_s}, gpus: {gpus}, servers: {servers}, iterations: {iterations}}}"


def record_of(run: Run, job: str) -> RecordSink:
    return RecordSink(run.run_dir / "jobs" / job)


def uses(run: Run, job: str) -> set[float]:
    """How often each sample of the ledger is in the final parameters."""
    return set(record_of(run, job).parameters().tolist())


def assert_all_exact(run: Run, gpus: list[int], epochs: dict[str, float]) -> None:
    """No GPU is held twice, the files agree, and every sample counts as often as it should."""
    assert gpu_violations(notes_of(run.run_dir), gpus) == []
    cluster = load_cluster(run.run_dir)
    assert check_cluster(cluster, job_times(cluster)).problems == ()
    for job, count in epochs.items():
        assert uses(run, job) == {count}
        assert problems(record_of(run, job).lines()) == []


def test_jobs_share_hosts_in_the_order_of_submission(start: Start) -> None:
    """The third needs all GPUs and waits; the last would fit next to the first, and waits behind it."""
    run = begin(start, entry("a", 0, 2, 2), entry("b", 0, 1, 2), entry("all", 0.1, 4, 4, 2), entry("late", 0.2, 1, 2))
    run.finish()
    notes, table = notes_of(run.run_dir), table_of(run.run_dir)
    assert set(table.status) == {"done"}
    assert [note["job"] for note in notes if note["type"] == "Placed"] == ["a", "b", "all", "late"]
    assert [note["job"] for note in notes if note["type"] == "Queued"] == ["all", "late"]
    assert notes[-1]["type"] == "Finished"
    assert_all_exact(run, GPUS, {"a": 2.0, "b": 2.0, "all": 4.0, "late": 2.0})
    assert gpu_violations(notes, [1, 2])  # what is used twice would be seen
    assert not [job for job in table.index if (record_of(run, job).run_dir / "checkpoints").exists()]
    used = pd.read_parquet(run.run_dir / "hosts.parquet")
    assert set(used.host) == {0, 1}
    assert used.gpus_used.max() == 2
    assert used.out_bytes_per_s.max() > 0.0  # of the job that is on both
    if "cpuacct" in Path("/proc/self/mounts").read_text() or find("cpu").version == 2:
        assert 0.0 < used.cpu_cores.max() < 1.0


@pytest.mark.long(like="test_jobs_share_hosts_in_the_order_of_submission")
def test_a_job_beside_another_learns_what_it_learns_alone(start: Start) -> None:
    words = (*(word for word in WORDS if word not in LEDGER), *DIGITS)
    entries = f"jobs.entries=[{entry('a', 0, 2, 1)},{entry('b', 1, 2, 1)}]"
    b = record_of(start("run", *words, entries, "save_parameters=true").finish(), "b")
    about = b.meta["job"]
    size = ("cluster.num_workers=2", "topology.num_servers=1")
    size += (f"workload.global_batch_samples={about['global_batch_samples']}", f"workload.epochs={about['epochs']}")
    alone = start("alone", *DIGITS, *size, f"seed={b.meta['seed']}").finish()
    assert b.sha256 == alone.sha256
    assert problems(b.lines()) == []
    assert b.events("Started")[0]["t"] < 1.0, "its time starts at 0 when its tasks are there"


@pytest.mark.long(like="test_jobs_share_hosts_in_the_order_of_submission")
def test_a_job_with_a_ring_shares_hosts_with_one_that_has_servers(start: Start) -> None:
    """Its replicas exchange gradients over the same links, and each sample counts once in all of them."""
    ring = entry("ring", 0, 2, 3, servers=0).replace("}", ", settings: ['topology=allreduce']}")
    run = begin(start, entry("a", 0, 2, 3), ring, words=("placement=spread",))
    run.finish()
    assert set(table_of(run.run_dir).status) == {"done"}
    placed = [note for note in notes_of(run.run_dir) if note["type"] == "Placed"]
    assert [(len(note["workers"]), len(note["servers"])) for note in placed] == [(2, 1), (2, 0)]
    assert len(set(placed[1]["workers"])) == 2, "its messages use the links"
    assert_all_exact(run, GPUS, {"a": 3.0, "ring": 3.0})


def test_a_job_whose_agent_is_killed_leaves_the_others_alone(start: Start) -> None:
    run = begin(start, entry("a", 0, 2, 2), entry("victim", 0, 2, 2000), entry("c", 0.1, 2, 2))
    victim = record_of(run, "victim")
    run.await_that(lambda: victim.events("Arrived"), "gradients of the victim")
    [agent] = [pid for pid in run.agents if os.readlink(f"/proc/{pid}/fd/1").startswith(str(victim.run_dir))]
    os.kill(agent, signal.SIGKILL)
    line = run.fail()
    assert "1 of 3 jobs are not done: job victim failed" in line
    assert table_of(run.run_dir).status.to_dict() == {"a": "done", "victim": "failed", "c": "done"}
    assert "the agent died" in victim.finished["reason"]
    assert [uses(run, job) for job in ("a", "c")] == [{2.0}] * 2


@pytest.mark.long(like="test_a_job_whose_agent_is_killed_leaves_the_others_alone")
def test_an_error_in_the_strategy_of_a_job_ends_only_that_job(start: Start) -> None:
    bad = entry("bad", 0, 2, 2).replace("}", ", settings: ['strategy=raising']}")
    run = begin(start, entry("a", 0, 2, 2), bad, entry("c", 0.1, 2, 2), words=CONF, env=ALLOW)
    assert "1 of 3 jobs are not done: job bad failed (RuntimeError at job_sets.py" in run.fail()
    assert table_of(run.run_dir).status.to_dict() == {"a": "done", "bad": "failed", "c": "done"}
    log = record_of(run, "bad").run_dir / "logs" / "coordinator.log"
    assert "RuntimeError: a bug of this strategy" in log.read_text()
    assert [uses(run, job) for job in ("a", "c")] == [{2.0}] * 2


@pytest.mark.long(like="test_a_job_whose_agent_is_killed_leaves_the_others_alone")
def test_an_interrupt_ends_all_in_good_order(start: Start) -> None:
    """One that runs, one that waits, one that has not come."""
    run = begin(start, entry("a", 0, 4, 2000), entry("waits", 0.1, 1, 2), entry("never", 900, 1, 2))
    run.await_that(lambda: record_of(run, "a").events("Arrived"), "gradients")
    run.process.send_signal(signal.SIGINT)
    code, _, err = run.wait()
    assert code == 130, err
    found = table_of(run.run_dir).status.to_dict()
    assert found == {"a": "interrupted", "waits": "waiting", "never": "unsubmitted"}
    assert record_of(run, "a").finished["status"] == "interrupted"
    last = notes_of(run.run_dir)[-1]
    assert (last["type"], last["status"]) == ("Finished", "interrupted")


@pytest.mark.long(like="test_jobs_share_hosts_in_the_order_of_submission")
def test_a_job_is_preempted_and_continues_elsewhere(start: Start) -> None:
    """``long`` gives way to ``short``, and is back when one of the others has ended; each is exact."""
    jobs = (entry("long", 0, 2, 12), entry("other", 0, 2, 6), entry("short", 5, 2, 2))
    run = begin(start, *jobs, words=("policy=srtf", "cluster.device={base_s:0.02,per_sample_s:0}", "draw=false"))
    run.finish(100.0)
    notes, table = notes_of(run.run_dir), table_of(run.run_dir)
    assert set(table.status) == {"done"}
    assert table.preemptions.to_dict() == {"long": 1, "other": 0, "short": 0}
    of_long = [note["type"] for note in notes if note.get("job") == "long"]
    assert of_long == ["Submitted", "Placed", "Started", "Preempted", "Queued", "Placed", "Started", "Ended"]
    assert_all_exact(run, GPUS, {"long": 12.0, "other": 6.0, "short": 2.0})
    record = record_of(run, "long")
    [left], [back] = record.notes("Preempted"), record.notes("Resumed")
    assert left["version"] < 12 * 63
    assert back["pause_s"] > 0
    times = {line["note"]["type"]: line["t"] for line in record.lines() if line["kind"] == "note"}
    arrivals = [line["t"] for line in record.lines() if line["kind"] == "event" and line["event"]["type"] == "Arrived"]
    assert not [t for t in arrivals if times["Preempted"] < t < times["Resumed"]]
    processes = [note["incarnation"] for note in record.notes("Launched") if note["role"] != "evaluator"]
    assert sorted(processes) == [0] * 3 + [1] * 3


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


def host_of(pid: int) -> str:
    """The emulated host of a process, by its control group."""
    return group_of(pid).parent.name


def groups_on(host: int, pid: int) -> set[str]:
    """The control groups of tasks on a host of the run of this process."""
    return {path.name for path in (group_of(pid).parents[1] / f"host-{host}").iterdir() if path.is_dir()}


@pytest.mark.long(like="test_jobs_share_hosts_in_the_order_of_submission")
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


@pytest.mark.long(like="test_jobs_share_hosts_in_the_order_of_submission")
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


@pytest.mark.long(like="test_jobs_share_hosts_in_the_order_of_submission")
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
