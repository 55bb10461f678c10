"""Sets of jobs that ask for nodes, as real processes: one Brain over all, within what hosts have, and exact ledgers."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Any

import pytest

from analysis.measures.cluster.checks import check_cluster
from analysis.measures.cluster.jobs import job_times
from analysis.records.cluster import load_cluster
from tests.live.test_live_job_sets import host_of, hosts, pid_of, record_of, uses  # noqa: F401  (a fixture)
from tests.support.exact import ALLOW
from tests.support.granted_nodes import Nodes, after, violations
from tests.support.invariants import problems
from tests.support.job_sets import notes_of, table_of
from tests.support.leaks import Start
from tests.support.runs import CONF, LEDGER, Run

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

GPUS, CORES, UNIT, BATCH = 2, 0.8, 0.1, 64
"""Of each host (in cores of this machine), of one core of the settings, of each worker."""
WORDS = (
    "runtime=live",
    "jobs=list",
    *LEDGER,
    "cluster=hosts",
    "cluster.hosts.count=2",
    f"cluster.hosts.gpus={GPUS}",
    f"cluster.hosts.cpu_cores={round(CORES / UNIT)}",
    f"cluster.hosts.real_cores_per_core={UNIT}",
    "cluster.num_workers=1",
    "cluster.device={base_s:0.1,per_sample_s:0}",
    f"workload.global_batch_samples={BATCH}",
    "runtime.telemetry_every_s=0.15",
    "replay.use_every_s=1",
    "replay.max_iterations=null",
    "replay.node_wait_s=1.5",
    "save_parameters=true",
)
OF_CORES = (f"strategy.unit_cores={UNIT}", "strategy.cores_total=8", "strategy.worker_cores=2")
TIMES = ("strategy.adjust_every_s=1", "strategy.decide_every_s=0.2", "strategy.launch_s=10")
STRATEGIES: dict[str, tuple[str, ...]] = {
    "dlrover": (
        "strategy.first_server_cores=2",
        "strategy.sample_s=1",
        "strategy.ps_interval_s=2",
        "strategy.min_interval_s=0.5",
        "strategy.workers_max=3",
    ),
    "optimus": ("strategy.sample_s=0.8",),
    "or_autoscale": ("strategy.step_workers=1", "strategy.min_iters=4"),
}


def words(name: str) -> tuple[str, ...]:
    return (*WORDS, f"strategy={name}", "strategy.server_cores=2", *OF_CORES, *TIMES, *STRATEGIES[name])


def entry(job: str, submit_s: float, epochs: int, gpus: int = 1) -> str:
    iterations = round(epochs * 2000 / (BATCH * gpus))
    return f"{{job: {job}, submit_s: {submit_s}, gpus: {gpus}, servers: 1, iterations: {iterations}}}"


def begin(start: Start, *more: str, jobs: tuple[str, ...], name: str = "run", **about: Any) -> Run:
    return start(name, *more, f"jobs.entries=[{','.join(jobs)}]", **about)


def of_kind(run: Run, *kinds: str) -> list[dict[str, Any]]:
    path = run.run_dir / "cluster.jsonl"
    return [note for note in notes_of(run.run_dir) if note["type"] in kinds] if path.exists() else []


def granted(run: Run) -> list[tuple[str, str]]:
    return [(note["job"], note["node"]) for note in of_kind(run, "Granted")]


def broken(run: Run, cores: float = CORES, gpus: int = GPUS) -> list[str]:
    """Hosts that at any instant have given more than they have."""
    return list(violations(notes_of(run.run_dir), [(cores + 1e-9, gpus)] * 2))


def held_at_the_end(run: Run) -> Nodes:
    held: Nodes = {}
    for note in notes_of(run.run_dir):
        held = after(held, note)
    return held


def assert_exact(run: Run, epochs: dict[str, int]) -> None:
    """Every sample counts as often as it should, hosts gave no more than they had, and nothing is held at the end."""
    assert set(table_of(run.run_dir).status) == {"done"}
    for job, count in epochs.items():
        assert uses(run, job) == {float(count)}
        assert problems(record_of(run, job).lines()) == []
    assert broken(run) == []
    assert broken(run, cores=UNIT), "the negative control"
    assert held_at_the_end(run) == {}
    cluster = load_cluster(run.run_dir)
    assert check_cluster(cluster, job_times(cluster)).problems == ()


def enforced(run: Run, job: str) -> list[tuple[str, float]]:
    """(node, cores) as control groups were read back, in this order."""
    notes = record_of(run, job).notes("Enforced")
    return [(note["node"], note["cpu_cores"]) for note in notes if note.get("cpu_cores")]


def test_one_brain_grants_what_is_free_and_denies_the_rest(start: Start) -> None:
    """One of four GPUs is left for the nodes of three jobs."""
    jobs = (entry("a", 0, 2), entry("b", 0.2, 1), entry("c", 0.4, 1))
    run = begin(start, *words("dlrover"), jobs=jobs)
    run.finish()
    assert_exact(run, {"a": 2, "b": 1, "c": 1})
    assert any("no host had so many and a GPU left for 1.5 s" in note["reason"] for note in of_kind(run, "Denied"))
    assert broken(run, gpus=1), "the negative control"
    node = of_kind(run, "Granted")[0]
    record = record_of(run, node["job"])
    (joined,) = [event for event in record.events("Joined") if f"worker:{event['worker']}" == node["node"]]
    assert joined["place"] == f"host:{node['host']}"
    limits = enforced(run, node["job"])
    assert limits[:2] == [("server:0", 0.2), ("worker:0", 0.2)], "what it starts with"
    assert (node["node"], node["cores"]) in limits


@pytest.mark.long(like="test_one_brain_grants_what_is_free_and_denies_the_rest")
def test_a_later_job_begins_with_what_a_finished_one_used(start: Start) -> None:
    run = begin(start, *words("dlrover"), jobs=(entry("a", 0, 1), entry("late", 0.2, 1, gpus=4)))
    run.finish()
    assert_exact(run, {"a": 1, "late": 1})
    (begun,) = record_of(run, "late").meta["job"]["strategy_fields"]["history"]
    assert begun["workload"] == "ledger"
    assert 0 < begun["worker_cores_used"] <= 2


def test_a_granted_node_dies_and_the_brain_is_away(start: Start) -> None:
    """The node returns to its host; who comes meanwhile starts when a new Brain is there, which knows who has what."""
    away = (3.5, 6.0)
    jobs = (entry("a", 0, 4), entry("b", 4.0, 1))
    run = begin(start, *words("dlrover"), f"replay.brain_away_s={list(away)}", jobs=jobs)
    record = record_of(run, "a")
    run.await_that(lambda: record.events("Joined"), "a node that was granted")
    node = record.events("Joined")[0]["worker"]
    was_on = host_of(pid := pid_of(record, "worker", node))
    os.kill(pid, signal.SIGKILL)
    run.await_that(lambda: [one["worker"] for one in record.events("Joined")].count(node) == 2, "its return")
    assert host_of(pid_of(record, "worker", node)) == was_on
    run.finish()
    assert_exact(run, {"a": 4, "b": 1})
    lost_s, back_s = (note["t"] for note in of_kind(run, "BrainLost", "BrainBack"))
    assert [note for note in of_kind(run, "Granted", "Denied", "Placed") if lost_s < note["t"] < back_s] == []
    assert [note["job"] for note in of_kind(run, "Placed") if note["t"] >= back_s] == ["b"]


@pytest.mark.long(like="test_one_brain_grants_what_is_free_and_denies_the_rest")
@pytest.mark.parametrize("name", ["or_autoscale", pytest.param("optimus", marks=pytest.mark.long)])
def test_other_strategies_ask_the_same_brain(start: Start, name: str) -> None:
    run = begin(start, *words(name), jobs=(entry("a", 0, 2), entry("b", 0.2, 1)))
    run.finish()
    assert_exact(run, {"a": 2, "b": 1})
    assert granted(run)


@pytest.mark.long(like="test_a_granted_node_dies_and_the_brain_is_away")
def test_what_is_taken_back_or_retired_is_free_when_its_process_has_ended(start: Start) -> None:
    """Nodes of low priority hold the last GPUs; they make room for a job. A server that leaves gives its cores back."""
    steps = ("wait 3", "workers 2", "servers 2", "wait 2", "servers 1", "wait 100000")
    scripted = (*CONF, "strategy=switching", "strategy.rule=asp", "strategy.priority=low", "strategy.cpu_cores=0.2")
    given = f"strategy.steps=[{','.join(repr(one) for one in steps)}]"
    plain = entry("b", 4, 1, gpus=3).replace("}", ", settings: ['strategy.steps=[]']}")
    run = begin(start, *WORDS, *scripted, given, jobs=(entry("a", 0, 3), plain), env=ALLOW)
    run.finish()
    assert_exact(run, {"a": 3, "b": 1})
    notes = [(note["type"], note.get("node", note["job"])) for note in notes_of(run.run_dir)[:-1]]
    asked = Counter(notes)
    assert asked["Granted", "worker:1"] == asked["Granted", "server:1"] == asked["Returned", "server:1"] == 1
    order = [("Queued", "b"), ("TakenBack", "worker:1"), ("Returned", "worker:1"), ("Placed", "b")]
    assert [note for note in notes if note in order] == order
    record = record_of(run, "a")
    (lost,) = record.events("Lost")
    assert (lost["worker"], lost["cause"]) == (1, "evicted")
    exited = [(note["role"], note["id"]) for note in record.notes("Exited")]
    assert exited[:2] == [("server", 1), ("worker", 1)]


@pytest.mark.long(like="test_one_brain_grants_what_is_free_and_denies_the_rest")
def test_an_interrupt_while_nodes_come_leaves_nothing(start: Start) -> None:
    run = begin(start, *words("dlrover"), "replay.node_wait_s=60", jobs=(entry("a", 0, 900), entry("b", 0, 900)))
    run.await_that(lambda: len(of_kind(run, "Granted")) == 2, "two nodes")
    run.process.send_signal(signal.SIGINT)
    code, _, err = run.wait()
    assert code == 130, err
    assert table_of(run.run_dir).status.to_dict() == {"a": "interrupted", "b": "interrupted"}
    assert broken(run) == []
    assert held_at_the_end(run) == {}
