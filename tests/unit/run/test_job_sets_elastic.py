"""Jobs of a set that ask for nodes: exact ledgers through grants, withdrawals and kills, within what hosts have."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from analysis.experiments.cluster_measures import CLUSTER_MEASURES, digest
from analysis.measures.cluster.checks import check_cluster
from analysis.measures.cluster.jobs import job_times
from analysis.records.cluster import load_cluster
from runtime.cluster.hosts import Placement
from runtime.errors import ConfigError
from tests.support.granted_nodes import Nodes, after, violations
from tests.support.job_sets import checked_set, notes_of, row, run_rows
from tests.support.long_tests import long_after
from tests.unit.run.test_job_sets_preempted import final, notes_in

HOSTS, GPUS, CORES, EPOCHS = 3, 4, 8.0, 2
KILLS = ("straggler=kill", "straggler.mean_s=25", "straggler.duration_s=1", "straggler.targets=[worker:*,server:*]")
KILLS = (*KILLS, "checkpoint_every_s=5")
DLROVER = ("strategy=dlrover", "strategy.first_server_cores=2", "strategy.sample_s=4", "strategy.min_interval_s=1")
DLROVER += ("strategy.adjust_every_s=4", "strategy.ps_interval_s=8", "strategy.launch_s=20", "strategy.workers_max=6")
STRATEGIES = {
    "dlrover": DLROVER,
    "optimus": ("strategy=optimus", "strategy.adjust_every_s=5"),
    "or_autoscale": ("strategy=or_autoscale", "strategy.adjust_every_s=5"),
}


def words(tmp_path: Path, *more: str) -> tuple[str, ...]:
    """Three hosts of 8 cores; a step computes for 0.1 s and updates for 0.05 s, and a node starts for 2 s."""
    costs = tmp_path / "costs.yaml"
    about = "compute_base_s: 0.1, worker_cores: 2, update_base_s: 0.05, server_cores: 8, launch_s: 2"
    costs.write_text(f"schema: 1\nvalues: {{{about}, checkpoint_base_s: 0.1}}\n")
    return (
        *("replay.models=null", f"cluster.costs={costs}", "cluster.device=null", f"cluster.hosts.count={HOSTS}"),
        *(f"cluster.hosts.gpus={GPUS}", f"cluster.hosts.cpu_cores={CORES}", "cluster.hosts.link_mbps=null"),
        *("cluster.hosts.overrides=null", "workload=ledger", "backend=numpy", "save_parameters=true"),
        *(
            "workload.global_batch_samples=64",
            "eval_every_s=null",
            "replay.max_iterations=null",
            "replay.node_wait_s=6",
        ),
        *("strategy.cores_total=14", "strategy.server_cores=2", "strategy.worker_cores=2", *more),
    )


def jobs(count: int = 4, every_s: float = 4.0) -> list[dict[str, Any]]:
    return [row(f"j{n}", every_s * n, gpus=1, iterations=496, model="", user="u") for n in range(count)]


def of_kind(run_dir: Path, *kinds: str) -> list[dict[str, Any]]:
    return [note for note in notes_of(run_dir) if note["type"] in kinds]


def broken(run_dir: Path, cores: float = CORES) -> list[str]:
    """Hosts that at any instant have given more than they have."""
    return list(violations(notes_of(run_dir), [(cores, GPUS)] * HOSTS))


@pytest.mark.parametrize("name", long_after(list(STRATEGIES), 1))
def test_every_sample_is_used_once_through_grants_and_kills(tmp_path: Path, name: str) -> None:
    """The parameters of this workload count the uses of every sample."""
    run_rows(tmp_path / "run", jobs(), *words(tmp_path, *STRATEGIES[name], *KILLS))
    for one in jobs():
        assert set(final(tmp_path / "run", one["job"]).tolist()) == {float(EPOCHS)}
    kinds = Counter(note["type"] for note in notes_of(tmp_path / "run"))
    assert min(kinds["Granted"], kinds["Returned"], kinds["Denied"]) > 0
    assert all(notes_in(tmp_path / "run", one["job"], "Exited") for one in jobs()), "somebody was killed in each"
    assert broken(tmp_path / "run") == []
    assert broken(tmp_path / "run", CORES - 1), "the negative control"
    cluster = load_cluster(tmp_path / "run")
    assert check_cluster(cluster, job_times(cluster)).problems == ()


def test_cores_that_a_host_refuses_are_not_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change that the Brain notes is one that the job has, too; here hosts give no worker other cores."""
    give = Placement.allocate

    def refuse(self: Placement, task: str, cores: float | None) -> None:
        if task.startswith("worker") and cores != self.cores.get(task, cores):
            raise ValueError("the host has not so many")
        give(self, task, cores)

    monkeypatch.setattr(Placement, "allocate", refuse)
    run_rows(tmp_path / "run", jobs(2), *words(tmp_path, *DLROVER, "straggler=none"))
    assert "the host has not so many" in (tmp_path / "run" / "jobs" / "j0" / "events.jsonl").read_text()
    noted = {(one["job"], one["node"], one["cores"]) for one in of_kind(tmp_path / "run", "Allotted")}
    given = {("j0", one["node"], one["cpu_cores"]) for one in notes_in(tmp_path / "run", "j0", "Allocated")}
    given |= {("j1", one["node"], one["cpu_cores"]) for one in notes_in(tmp_path / "run", "j1", "Allocated")}
    assert noted <= given


def used_and_granted(run_dir: Path) -> dict[str, tuple[float, float]]:
    """Core-seconds of each role: used by the samples in the jobs' logs, granted by the cluster's notes until then."""
    found = {"worker": (0.0, 0.0), "server": (0.0, 0.0)}
    notes = notes_of(run_dir)
    for note in [note for note in notes if note["type"] == "Started"]:
        log = (run_dir / "jobs" / note["job"] / "events.jsonl").read_text().splitlines()
        events = [json.loads(line).get("event") or {} for line in log]
        for sample in [event for event in events if event.get("type") == "Observed"]:
            held: Nodes = {}
            for earlier in [one for one in notes if one["t"] <= note["t"] + sample["t"]]:
                held = after(held, earlier)
            for node in sample["nodes"]:
                role = node["node"].partition(":")[0]
                if role in found:
                    cores = held[note["job"], node["node"]][1]
                    used, given = found[role]
                    found[role] = used + node["cpu_cores"] * sample["period_s"], given + cores * sample["period_s"]
    return found


def test_the_use_of_granted_cores_is_what_logs_and_grants_say(tmp_path: Path) -> None:
    more = (*DLROVER, "straggler=none", "strategy.server_cores=3")
    run_rows(tmp_path / "run", jobs(2), *words(tmp_path, *more))
    assert of_kind(tmp_path / "run", "Granted")
    worker, server = used_and_granted(tmp_path / "run").values()
    wanted = {"worker": worker, "server": server, "node": (worker[0] + server[0], worker[1] + server[1])}
    run = digest(load_cluster(tmp_path / "run"))
    for role, (used, given) in wanted.items():
        assert CLUSTER_MEASURES[f"{role}_cores_used_frac"](run) == pytest.approx(used / given, rel=1e-9)
    assert worker[0] / worker[1] != pytest.approx(server[0] / server[1], rel=0.1)


def test_without_the_brain_jobs_keep_what_they_have(tmp_path: Path) -> None:
    """Jobs that come meanwhile wait for a new one, which goes on from what was granted."""
    away = (6.0, 40.0)
    run_rows(tmp_path / "run", jobs(), *words(tmp_path, *DLROVER, *KILLS, f"replay.brain_away_s={list(away)}"))
    decided = of_kind(tmp_path / "run", "Granted", "Denied", "Placed")
    assert [note for note in decided if away[0] < note["t"] < away[1]] == []
    assert [note["t"] for note in decided if note["type"] == "Placed"][:3] == [0.0, 4.0, 40.0]
    assert any(note["type"] == "Granted" and note["t"] >= away[1] for note in decided)
    assert broken(tmp_path / "run") == []
    for one in jobs():
        assert set(final(tmp_path / "run", one["job"]).tolist()) == {float(EPOCHS)}


@pytest.mark.parametrize("history", [True, False])
def test_a_later_job_begins_with_what_finished_ones_used(tmp_path: Path, history: bool) -> None:
    more = (*DLROVER, "straggler=none", f"replay.history={history}")
    run_rows(tmp_path / "run", jobs(2, every_s=500.0), *words(tmp_path, *more))
    (first, second) = (
        [note["t"] - 500.0 * number for note in of_kind(tmp_path / "run", "Granted") if note["job"] == f"j{number}"]
        for number in range(2)
    )
    assert min(first) >= 4.0
    assert (min(second) < 4.0) == history
    about = json.loads((tmp_path / "run" / "jobs" / "j1" / "meta.json").read_text())
    begun = about["job"]["strategy_fields"]["history"]
    assert [(one["workload"], one["dataset"]) for one in begun] == ([("ledger", "u")] if history else [])


def test_a_job_that_no_hosts_could_hold_is_refused_before_anything_starts(tmp_path: Path) -> None:
    larger = (*words(tmp_path, *DLROVER, "straggler=none"), "strategy.worker_cores=9")
    with pytest.raises(ConfigError, match="1 workers of 9 cores and 1 servers of 2 do not fit on the empty cluster"):
        checked_set(jobs(1), *larger)
    with pytest.raises(ConfigError, match=r"replay.brain_away_s=\[2.0, 1.0\]: must be \[from, until\]"):
        checked_set(jobs(1), *words(tmp_path, *DLROVER, "straggler=none", "replay.brain_away_s=[2,1]"))
