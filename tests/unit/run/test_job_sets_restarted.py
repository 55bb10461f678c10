"""Strategies that restart workers, in a set of jobs: the cluster says where, and no GPU is held twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from analysis.measures.cluster.checks import check_cluster
from analysis.measures.cluster.jobs import job_times
from analysis.records.cluster import load_cluster
from analysis.records.load import load_run
from runtime.run.job import JobFailed
from runtime.run.jobs.replay import run_set
from tests.support.job_sets import checked_set, gpu_violations, notes_of, row, run_rows
from tests.support.long_tests import long_after
from tests.support.runs import RecordSink
from tests.unit.run.test_job_sets_preempted import GPUS, HOSTS, final, notes_in, plain

SLOW = ("strategy=antdt_nd", "straggler=persistent", "straggler.sleep_s=0.3", "straggler.sleep_iters=null")
"""Worker 0 takes four times as long in every iteration, on the machine on which it is, and is restarted for that."""
ALONE = ("straggler.intensity=0",)


def slow_one(iterations: int = 300, **more: Any) -> dict[str, Any]:
    return row("slow", gpus=4, iterations=iterations, model="", **more)


def fifo(tmp_path: Path) -> tuple[str, ...]:
    return (*(word for word in plain(tmp_path) if not word.startswith("policy")), *SLOW)


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It has the host for itself, and the other one is empty."""
    tmp_path = tmp_path_factory.mktemp("moved")
    run_rows(tmp_path / "run", [slow_one()], *fifo(tmp_path), "straggler.intensity=1")
    return tmp_path / "run"


def test_a_straggler_is_restarted_on_another_host_and_leaves_what_slowed_it(moved: Path) -> None:
    (move,) = [note for note in notes_of(moved) if note["type"] == "Moved"]
    assert (move["job"], move["task"], move["host"]) == ("slow", "worker:0", 1)
    (own,) = notes_in(moved, "slow", "Moved")
    assert (own["task"], own["host"]) == ("worker:0", "host:1")
    assert own["t"] == pytest.approx(move["t"])
    rows = load_run(moved / "jobs" / "slow").tables.iterations
    mine = rows[rows.worker == 0]
    assert (mine[mine.t < move["t"]].injected_s > 0).all()
    assert (mine[mine.t > move["t"] + 1].injected_s == 0).all()
    assert gpu_violations(notes_of(moved), [GPUS] * HOSTS) == [], "its GPUs are counted where they are"
    cluster = load_cluster(moved)
    assert check_cluster(cluster, job_times(cluster)).problems == ()
    assert cluster.spans.ended.tolist() == ["moved", "ended"]
    assert [sorted(workers) for workers in cluster.spans.workers] == [[0, 0, 0, 0], [0, 0, 0, 1]]
    assert cluster.jobs.starts.tolist() == [1]
    assert sorted(cluster.stored.worker_hosts[0]) == [0, 0, 0, 1]


def test_it_is_pending_as_a_quota_of_its_own_says(tmp_path: Path) -> None:
    """One cluster places all jobs, and the scheduler of each says how long its own nodes wait."""
    quota = ["scheduler=quota", "scheduler.pending_s=1.5"]
    run_rows(tmp_path / "run", [slow_one(settings=quota)], *fifo(tmp_path), "straggler.intensity=1")
    (move,) = [note for note in notes_of(tmp_path / "run") if note["type"] == "Moved"]
    (restarting,) = notes_in(tmp_path / "run", "slow", "Restarting")
    assert (restarting["node"], restarting["pending_s"]) == (move["task"], 1.5)
    (joined,) = RecordSink(tmp_path / "run" / "jobs" / "slow").events("Joined")
    assert joined["t"] - restarting["t"] == pytest.approx(1.5)


def test_without_a_free_gpu_elsewhere_it_starts_again_where_it_was(tmp_path: Path) -> None:
    """And is as slow there as before."""
    rows = [slow_one(120), row("other", gpus=4, iterations=2000, model="", settings=ALONE)]
    run_rows(tmp_path / "run", rows, *fifo(tmp_path), "straggler.intensity=1")
    assert [note for note in notes_of(tmp_path / "run") if note["type"] == "Moved"] == []
    run = load_run(tmp_path / "run" / "jobs" / "slow")
    assert len(run.tables.restarts)
    mine = run.tables.iterations[run.tables.iterations.worker == 0]
    assert (mine.injected_s > 0).all()


def test_who_waits_is_not_overtaken_by_a_restart(tmp_path: Path) -> None:
    """The gang that waits for three GPUs gets them as soon as so many are free, with a moved worker or without."""
    rows = [slow_one(), row("short", gpus=2, iterations=60, model="", settings=ALONE)]
    rows.append(row("late", 1.0, gpus=3, iterations=20, model="", settings=ALONE))
    run_rows(tmp_path / "run", rows, *fifo(tmp_path), "straggler.intensity=1")
    notes = notes_of(tmp_path / "run")
    assert gpu_violations(notes, [GPUS] * HOSTS) == []
    ended = next(note["t"] for note in notes if note["type"] == "Ended" and note["job"] == "short")
    placed = next(note for note in notes if note["type"] == "Placed" and note["job"] == "late")
    assert placed["t"] == pytest.approx(ended)


@pytest.mark.parametrize("grace_s", long_after([30, 0], 1))
@pytest.mark.parametrize("mode", long_after(["antdt_nd", "antdt_nd_asp"], 1))
def test_every_sample_is_applied_once_with_restarts_and_preemption(tmp_path: Path, mode: str, grace_s: int) -> None:
    """It is restarted, then gives way to a shorter job, and comes back."""
    rows = [slow_one(310), row("short", 16.0, gpus=7, iterations=62, model="", settings=ALONE)]
    words = (*plain(tmp_path), *SLOW, f"strategy={mode}", "straggler.intensity=1", f"replay.grace_s={grace_s}")
    table = run_rows(tmp_path / "run", rows, *words, "workload=ledger", "backend=numpy", "save_parameters=true")
    notes = notes_of(tmp_path / "run")
    assert [note["task"] for note in notes if note["type"] == "Moved" and note["job"] == "slow"][:1] == ["worker:0"]
    assert table.preemptions.to_dict() == {"slow": 1, "short": 0}
    assert gpu_violations(notes, [GPUS] * HOSTS) == []
    assert len(set(final(tmp_path / "run", "slow").tolist())) == 1


JOBS, ROUNDS, ROUND_S = 12, 40, 0.1
KILLS = (
    "straggler=kill",
    "straggler.mean_s=12",
    "straggler.duration_s=0.5",
    "straggler.targets=['worker:*','server:*']",
)


def kills_of(run_dir: Path, job: str) -> list[float]:
    """When the job's own plan kills somebody, in order."""
    plan = msgspec.json.decode((run_dir / "jobs" / job / "plan.json").read_bytes())
    return sorted(one["start_s"] for one in plan["disturbances"])


@pytest.mark.parametrize("survived", [0, 1])
def test_a_job_without_fail_over_ends_with_the_first_kill(tmp_path: Path, survived: int) -> None:
    """Jobs that share nothing take 4 s undisturbed: who is killed more often by then than it survives has failed."""
    rows = [row(f"job{number}", gpus=4, iterations=ROUNDS, model="") for number in range(JOBS)]
    words = (*plain(tmp_path, hosts=JOBS), *KILLS, "strategy=asp", f"max_losses={survived}", "checkpoint_every_s=null")
    with pytest.raises(JobFailed, match=rf"of {JOBS} jobs are not done: .*max_losses={survived} is used up"):
        run_set(checked_set(rows, *words), tmp_path / "run")
    ended = {note["job"]: note for note in notes_of(tmp_path / "run") if note["type"] == "Ended"}
    failed = 0
    for job, note in ended.items():
        kills = kills_of(tmp_path / "run", job)
        last_s = kills[survived] if len(kills) > survived else float("inf")
        if note["status"] == "failed":
            failed += 1
            assert note["t"] == pytest.approx(last_s)
            assert note["reason"].endswith(f"is lost (killed by the plan), and max_losses={survived} is used up")
        else:
            assert note["status"] == "done"
            assert note["t"] < last_s
            if not survived:
                assert note["t"] == pytest.approx(ROUNDS * ROUND_S)
    assert 0 < failed < JOBS, "both happen, or nothing was shown"
