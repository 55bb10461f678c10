"""Preemption in detail: a job leaves with one checkpoint, and continues later, perhaps elsewhere, as undisturbed."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from analysis.measures.cluster.checks import check_cluster
from analysis.measures.cluster.jobs import job_times
from analysis.records.cluster import load_cluster
from analysis.records.load import load_run
from tests.support.job_sets import gpu_violations, notes_of, row, run_rows
from tests.support.long_tests import long_after

ITERATION_S = 0.1
HOSTS, GPUS = 2, 4


def plain(tmp_path: Path, hosts: int = HOSTS, iteration_s: float = ITERATION_S) -> tuple[str, ...]:
    """Hosts of 4 GPUs on which nothing but computing takes time, 0.1 s, so that nobody can disturb anybody."""
    costs = tmp_path / "nothing.yaml"
    costs.write_text("schema: 1\nvalues: {}\n")
    return (
        *("replay.models=null", f"cluster.costs={costs}", f"cluster.device={{base_s:{iteration_s},per_sample_s:0}}"),
        *(f"cluster.hosts.count={hosts}", f"cluster.hosts.gpus={GPUS}", "cluster.hosts.overrides=null"),
        *("cluster.hosts.cpu_cores=null", "cluster.hosts.link_mbps=null", "workload.global_batch_samples=64"),
        *("replay.max_iterations=null", "replay.restart_s=0", "policy=srtf"),
    )


def moving() -> list[dict[str, Any]]:
    """``long`` gives way to ``short`` on host 1, and continues on host 0 when ``other`` has ended there at 2 s."""
    return [
        row("long", gpus=4, iterations=60, model=""),
        row("other", gpus=4, iterations=20, model=""),
        row("short", 0.55, gpus=4, iterations=40, model=""),
    ]


def notes_in(run_dir: Path, job: str, *kinds: str) -> list[dict[str, Any]]:
    lines = [msgspec.json.decode(line) for line in (run_dir / "jobs" / job / "events.jsonl").read_bytes().splitlines()]
    notes = [{"t": line["t"], **line["note"]} for line in lines if line["kind"] == "note"]
    return [note for note in notes if note["type"] in kinds]


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("moved")
    run_rows(tmp_path / "run", moving(), *plain(tmp_path))
    return tmp_path / "run"


def test_a_preempted_job_takes_its_own_time_and_the_pause(moved: Path) -> None:
    """Ordered at 0.55 s it ends its round at 0.6 s, and is back at 2.0 s: 60 rounds of 0.1 s, and 1.4 s."""
    found = load_cluster(moved).jobs.set_index("job")
    assert found.end_s.to_dict() == pytest.approx({"long": 6.0 + 1.4, "other": 2.0, "short": 0.6 + 4.0}, abs=1e-9)
    assert found.preemptions.to_dict() == {"long": 1, "other": 0, "short": 0}
    left, back = notes_in(moved, "long", "Preempted", "Resumed")
    assert (left["t"], left["version"]) == (pytest.approx(0.6), 6)
    assert (back["t"], back["pause_s"]) == (pytest.approx(2.0), pytest.approx(1.4))


def test_its_order_to_leave_is_one_thing_and_its_departure_another(moved: Path) -> None:
    """It continues on other hosts; the time until its last update is service."""
    notes = notes_of(moved)
    mine = [note for note in notes if note.get("job") == "long"]
    kinds = ("Submitted", "Placed", "Started", "Preempted", "Queued", "Placed", "Started", "Ended")
    times = (0.0, 0.0, 0.0, 0.55, 0.6, 2.0, 2.0, 7.4)
    assert [(note["type"], round(note["t"], 6)) for note in mine] == list(zip(kinds, times, strict=True))
    assert [note["attained_s"] for note in mine if note["type"] == "Queued"] == [pytest.approx(0.6)]
    assert [set(note["workers"]) for note in mine if note["type"] == "Placed"] == [{1}, {0}]
    (back,) = notes_in(moved, "long", "Resumed")
    assert set(back["places"].values()) == {"host:0"}
    assert gpu_violations(notes, [GPUS] * HOSTS) == []
    assert gpu_violations(notes, [GPUS - 1] * HOSTS), "the negative control"
    cluster = load_cluster(moved)
    assert check_cluster(cluster, job_times(cluster)).problems == ()
    assert cluster.spans.ended.value_counts().to_dict() == {"ended": 3, "preempted": 1}


def test_a_restart_costs_what_the_setting_says(tmp_path: Path) -> None:
    """The GPUs are held meanwhile, and nothing else takes longer."""
    words = [word for word in plain(tmp_path) if not word.startswith("replay.restart_s")]
    table = run_rows(tmp_path / "run", moving(), *words, "replay.restart_s=0.25")
    assert table.end_s.to_dict() == pytest.approx({"long": 6.0 + 1.4 + 0.25, "other": 2.0, "short": 4.6}, abs=1e-9)
    notes = {note["type"]: note["t"] for note in notes_of(tmp_path / "run") if note.get("job") == "long"}
    assert (notes["Placed"], notes["Started"]) == (pytest.approx(2.0), pytest.approx(2.25))


def test_a_job_without_grace_leaves_at_once_and_computes_its_round_again(tmp_path: Path) -> None:
    table = run_rows(tmp_path / "run", moving(), *plain(tmp_path), "replay.grace_s=0")
    assert table.end_s.to_dict() == pytest.approx({"long": 6.0 + 1.45 + 0.05, "other": 2.0, "short": 4.55}, abs=1e-9)


def test_it_is_preempted_again_while_it_restarts(tmp_path: Path) -> None:
    """Back at 2 s it would compute from 5 s on; at 3 s another one comes, for whom there is no other place."""
    rows = [*moving(), row("late", 3.0, gpus=4, iterations=5, model="")]
    words = [word for word in plain(tmp_path) if not word.startswith("replay.restart_s")]
    table = run_rows(tmp_path / "run", rows, *words, "replay.restart_s=3")
    assert table.preemptions.to_dict() == {"long": 2, "other": 0, "short": 0, "late": 0}
    # back at 3.5 s, and computing from 6.5 s on
    ends_s = {"long": 6.5 + 5.4, "other": 2.0, "short": 4.6, "late": 3.5}
    assert table.end_s.to_dict() == pytest.approx(ends_s, abs=1e-9)
    assert gpu_violations(notes_of(tmp_path / "run"), [GPUS] * HOSTS) == []


def test_its_time_limit_does_not_count_the_pause(tmp_path: Path) -> None:
    """6 s of work within 6.06 s, though it is over at 7.4 s."""
    words = (*plain(tmp_path), "max_time_s=1", "replay.max_slowdown=1.01")
    table = run_rows(tmp_path / "run", moving(), *words)
    assert table.iterations.to_dict() == {"long": 60, "other": 20, "short": 40}


LEARNS = ("save_parameters=true",)


def final(run_dir: Path, job: str) -> np.ndarray:
    return np.load(run_dir / "jobs" / job / "parameters.npy")


@pytest.mark.long(like="test_every_sample_is_applied_once")
@pytest.mark.parametrize("grace_s", long_after([30, 0], 1))
def test_the_parameters_of_a_synchronous_job_are_those_undisturbed(tmp_path: Path, grace_s: int) -> None:
    """To the last bit, with the optimizer's state: momentum that began again would be seen."""
    rows = [one | {"iterations": count} for one, count in zip(moving(), (100, 25, 50), strict=True)]
    learns = ("workload=digits", "backend=torch", f"replay.grace_s={grace_s}", "workload.optimizer.momentum=0.9")
    words = (*plain(tmp_path), *LEARNS, *learns)
    table = run_rows(tmp_path / "run", rows, *words)
    assert table.preemptions.to_dict() == {"long": 1, "other": 0, "short": 0}
    run_rows(tmp_path / "alone", rows[:1], *words)
    assert final(tmp_path / "run", "long").tobytes() == final(tmp_path / "alone", "long").tobytes()


@pytest.mark.parametrize("strategy", long_after(["asp", "bsp"], 1))
@pytest.mark.parametrize("grace_s", long_after([0, 30], 1))
def test_every_sample_is_applied_once(tmp_path: Path, strategy: str, grace_s: int) -> None:
    """The parameters of this workload count the uses of every sample; what is in progress returns."""
    counts = ("workload=ledger", "backend=numpy", f"strategy={strategy}", f"replay.grace_s={grace_s}")
    words = (*plain(tmp_path), *LEARNS, *counts)
    rows = [one | {"iterations": count} for one, count in zip(moving(), (186, 62, 124), strict=True)]
    table = run_rows(tmp_path / "run", rows, *words)
    assert table.preemptions["long"] == 1
    assert set(final(tmp_path / "run", "long").tolist()) == {3.0}


@pytest.mark.parametrize("record", long_after(["events", "iterations"], 1))
def test_its_record_is_one_ordinary_record(tmp_path: Path, record: str) -> None:
    run_rows(tmp_path / "run", moving(), *plain(tmp_path), f"record={record}")
    run = load_run(tmp_path / "run" / "jobs" / "long")
    assert run.status == "done"
    found = run.tables.iterations
    assert sorted(found.iteration.unique()) == list(range(60))
    assert (found.groupby("iteration").worker.nunique() == 4).all()
    assert found.applied_version.max() == 60
    assert set(found.fate) == {"applied"}
    if record == "events":
        assert run.integrity.problems == ()
        rows = run.tables.restarts
        assert list(zip(rows.what, rows.version, strict=True)) == [("Preempted", 6), ("Resumed", 6)]
        assert rows.t.tolist() == pytest.approx([0.6, 2.0])


def drawn(seed: int, count: int = 8) -> list[dict[str, Any]]:
    """Jobs that fill whole hosts, so that they share nothing. Few, since a round may change which of two is first."""
    random = Random(seed)
    t, rows = 0.0, []
    for number in range(count):
        t += random.uniform(0.1, 1.5)
        size = random.choice((4, 4, 8))
        rows.append(row(f"j{number}", t, gpus=size, iterations=random.randint(10, 120), model=""))
    return rows


@pytest.mark.parametrize("seed", long_after([2, 0], 1))
@pytest.mark.parametrize("policy", long_after(["las", "srtf", "srsf"], 1))
def test_jobs_that_share_nothing_end_when_they_do_without_detail(tmp_path: Path, policy: str, seed: int) -> None:
    """Those that train leave at the end of a round, so a job may be off by a round per preemption of anybody. Seeds in
    which two jobs are so close that a round decides which goes first say nothing."""
    round_s = 0.05
    words = [word for word in plain(tmp_path, 3, round_s) if not word.startswith("policy")]
    words += [f"policy={policy}", "replay.restart_s=0.5"]
    words += ["policy.thresholds=[6,20]"] if policy == "las" else []
    counted = run_rows(tmp_path / "counted", drawn(seed), *words, "replay.detail=gpus_only")
    full = run_rows(tmp_path / "full", drawn(seed), *words)
    assert counted.preemptions.sum() >= 1
    assert full.preemptions.to_dict() == counted.preemptions.to_dict()
    assert full.end_s.to_dict() == pytest.approx(counted.end_s.to_dict(), abs=counted.preemptions.sum() * round_s)
    assert gpu_violations(notes_of(tmp_path / "full"), [GPUS] * 3) == []
