"""The record of a cluster is read whatever became of its run; what contradicts itself is refused."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from analysis.measures.cluster.jobs import job_times
from analysis.records.cluster import Cluster, load_cluster
from analysis.records.load import RecordError, find_clusters, find_runs
from tests.support.cluster_records import ClusterStory
from tests.support.records import bsp_story


def told(tmp_path: Path, story: ClusterStory, **how: Any) -> Cluster:
    return load_cluster(story.write(tmp_path / "run", **how))


def two_jobs() -> ClusterStory:
    """``a`` runs, is preempted by ``b``, and runs again elsewhere."""
    story = ClusterStory(gpus=(2, 2))
    story.submit(1.0, "a", gpus=2, duration_s=10.0, servers=1, model="lstm", user="u1")
    story.start(1.0, "a", [0, 0], [1])
    story.submit(4.0, "b", gpus=4, duration_s=3.0)
    story.note(4.0, "Queued", job="b")
    story.preempt(4.0, "a", gone_s=5.0)
    story.start(5.0, "b", [0, 0, 1, 1])
    story.end(8.0, "b")
    story.start(8.0, "a", [1, 0], [0], zero_s=9.0)
    story.end(15.0, "a")
    story.notes.append((15.0, {"type": "Finished", "status": "done", "reason": ""}))
    return story


def test_what_happened_to_the_jobs_and_their_gpus(tmp_path: Path) -> None:
    cluster = told(tmp_path, two_jobs())
    a, b = (row for _, row in cluster.jobs.iterrows())
    about = (a.job, a.user, a.model, a.status, a.gpus, a.servers, a.starts, a.preemptions)
    assert about == ("a", "u1", "lstm", "done", 2, 1, 2, 1)
    assert (a.submit_s, a.start_s, a.zero_s, a.end_s) == (1.0, 1.0, 1.0, 15.0)
    assert (b.submit_s, b.start_s, b.end_s, b.starts, b.preemptions) == (4.0, 5.0, 8.0, 1, 0)
    assert (cluster.status, cluster.end_s, cluster.torn) == ("done", 15.0, False)
    assert list(cluster.machines["gpus"]) == [2, 2]
    spans = cluster.spans  # a preempted job holds its GPUs until they are free
    found = spans[["job", "start_s", "end_s", "ended"]].to_numpy().tolist()
    assert found == [["a", 1.0, 5.0, "preempted"], ["a", 8.0, 15.0, "ended"], ["b", 5.0, 8.0, "ended"]]
    assert list(spans["workers"]) == [(0, 0), (1, 0), (0, 0, 1, 1)]


def test_a_job_that_is_placed_again_at_once_was_preempted(tmp_path: Path) -> None:
    """The policy may start it in the very decision in which its GPUs became free: then no ``Queued`` is written."""
    story = ClusterStory(gpus=(1, 1))
    story.submit(0.0, "a", gpus=1)
    story.start(0.0, "a", [0])
    story.note(3.0, "Preempted", job="a")
    story.start(4.0, "a", [1])
    story.end(9.0, "a")
    cluster = told(tmp_path, story)
    assert list(cluster.spans["end_s"]) == [4.0, 9.0]
    assert cluster.jobs[["starts", "preemptions"]].to_numpy().tolist() == [[2, 1]]


def killed(tmp_path: Path) -> Cluster:
    """``runs`` has GPUs, ``waits`` has none, and the run is killed while it writes a line."""
    story = ClusterStory(gpus=(2,))
    story.submit(0.0, "runs", gpus=2, duration_s=5.0)
    story.start(0.0, "runs", [0, 0])
    story.submit(2.0, "waits", gpus=1, duration_s=1.0)
    story.note(7.0, "Queued", job="waits")
    path = story.write(tmp_path / "run", finished=False)
    with (path / "cluster.jsonl").open("a") as file:
        file.write('{"seq": 4, "t": 8.0, "kind": "note", "note": {"type": "End')
    (path / "hosts.parquet").write_bytes(b"PAR1 without a footer")
    return load_cluster(path)


def test_the_run_was_killed(tmp_path: Path) -> None:
    cluster = killed(tmp_path)
    assert (cluster.torn, cluster.status, cluster.end_s) == (True, "killed", 7.0)
    assert list(cluster.jobs["status"]) == ["running", "waiting"]
    assert cluster.stored is None
    assert not len(cluster.hosts)
    assert list(cluster.spans["ended"]) == ["open"]
    assert isnan(cluster.jobs["start_s"][1])


def test_a_missing_newline_and_notes_of_a_newer_version_are_passed_over(tmp_path: Path) -> None:
    path = two_jobs().write(tmp_path / "run")
    log = path / "cluster.jsonl"
    log.write_text(log.read_text().rstrip("\n"))
    assert load_cluster(path).status == "done"
    assert not load_cluster(path).torn
    story = two_jobs()
    story.note(2.0, "Migrated", job="a", to=3)
    assert len(told(tmp_path / "newer", story).spans) == 3
    nothing = told(tmp_path / "nothing", ClusterStory(), finished=False)
    assert (len(nothing.jobs), len(nothing.spans), nothing.status, len(job_times(nothing))) == (0, 0, "killed", 0)


WRONG = {
    "twice": ("Submitted", {"job": "a", "gpus": 1}, "submitted before"),
    "unknown": ("Started", {"job": "c"}, "never submitted"),
    "ended": ("Ended", {"job": "b", "status": "done"}, "has ended"),
    "preempted": ("Preempted", {"job": "a"}, "job a has ended"),
    "field": ("Placed", {"job": "a"}, "workers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_contradicts_itself_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    kind, fields, said = WRONG[name]
    story = two_jobs()
    story.note(16.0, kind, **fields)
    with pytest.raises(RecordError, match=rf"cluster.jsonl:15: .*{said}"):
        told(tmp_path, story, finished=False)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda lines: lines[1:], "seq 1 where 0 is due"),
        (lambda lines: [*lines[:3], "no JSON\n", *lines[4:]], "cluster.jsonl:4:"),
        (lambda lines: [lines[0].replace('"t": 1.0', '"t": 2.0'), *lines[1:]], "Time never decreases"),
    ],
)
def test_a_damaged_log_is_refused(broken: Any, said: str, tmp_path: Path) -> None:
    path = two_jobs().write(tmp_path / "run")
    log = path / "cluster.jsonl"
    log.write_text("".join(broken(log.read_text().splitlines(keepends=True))))
    with pytest.raises(RecordError, match=said):
        load_cluster(path)
    content = json.loads((path / "meta.json").read_text())
    content["machine"]["hosts"] = None
    (path / "meta.json").write_text(json.dumps(content))
    with pytest.raises(RecordError, match=r"machine\.hosts"):
        load_cluster(path)


def test_the_jobs_of_a_cluster_are_no_runs_of_a_sweep(tmp_path: Path) -> None:
    path = two_jobs().write(tmp_path / "sweep" / "0")
    inside = bsp_story().write(path / "jobs" / "a")
    alone = bsp_story().write(tmp_path / "sweep" / "1")
    assert find_clusters(tmp_path) == [path]
    assert find_runs(tmp_path) == [inside, alone]
    assert find_runs(tmp_path, of_clusters=False) == [alone]
