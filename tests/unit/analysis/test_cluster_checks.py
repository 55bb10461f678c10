"""A sound record of a cluster passes its checks; each check has a broken record that it catches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.measures.cluster.checks import check_cluster
from analysis.measures.cluster.jobs import job_times
from analysis.records.cluster import Cluster, load_cluster
from tests.support.cluster_records import ClusterStory
from tests.unit.analysis.test_cluster_jobs import fifo_on_one_gpu
from tests.unit.analysis.test_cluster_records import killed, told, two_jobs


def problems(cluster: Cluster) -> list[str]:
    return list(check_cluster(cluster, job_times(cluster)).problems)


def sampled() -> ClusterStory:
    story = two_jobs()
    used = {2.0: (2.0, 0.0), 5.0: (0.0, 0.0), 6.0: (2.0, 2.0), 10.0: (1.0, 1.0)}
    story.samples = [(t, host, gpus, 1.0, 0.0, 0.0) for t, both in used.items() for host, gpus in enumerate(both)]
    return story


def test_sound_records(tmp_path: Path) -> None:
    cluster = told(tmp_path / "a", sampled())
    assert check_cluster(cluster, job_times(cluster)).unchecked == ()
    assert problems(cluster) == []
    random = np.random.default_rng(1)
    story = fifo_on_one_gpu(random.exponential(1.0, 30).cumsum().tolist(), random.exponential(0.8, 30).tolist())
    assert problems(told(tmp_path / "b", story)) == []
    path = two_jobs().write(tmp_path / "c")  # a job that had not come is not missed
    rows = pd.read_parquet(path / "jobs.parquet")
    more = {**rows.iloc[0].to_dict(), "job": "c", "status": "unsubmitted", "submit_s": 99.0, "start_s": None}
    pd.DataFrame([*rows.to_dict("records"), more]).to_parquet(path / "jobs.parquet")
    assert problems(load_cluster(path)) == []


def test_what_a_killed_run_lacks_is_said(tmp_path: Path) -> None:
    cluster = killed(tmp_path)
    sound = check_cluster(cluster, job_times(cluster))
    assert sound.ok
    assert [text.partition(":")[0] for text in sound.unchecked] == ["Little's law", "samples of the hosts"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.assign(end_s=rows["end_s"] - [0.0, 1.0]), ["Little's law", "end_s differs"]),
        (lambda rows: rows[rows["job"] == "a"], ["same jobs: b"]),
        (lambda rows: rows.assign(starts=[3, 1]), ["starts differs"]),
    ],
)
def test_tables_that_disagree(change: Callable[[pd.DataFrame], pd.DataFrame], said: list[str], tmp_path: Path) -> None:
    path = two_jobs().write(tmp_path / "run")
    change(pd.read_parquet(path / "jobs.parquet")).to_parquet(path / "jobs.parquet")
    found = problems(load_cluster(path))
    assert all(any(one in text for text in found) for one in said)


def test_placements_that_no_host_can_hold(tmp_path: Path) -> None:
    story = two_jobs()
    story.gpus = (2, 1)
    assert [text for text in problems(told(tmp_path, story)) if "host 1: 2 workers at t = 5.000 s on 1 GPUs" in text]
    story = ClusterStory(gpus=(2,))
    story.submit(0.0, "a", gpus=2)
    story.start(0.0, "a", [0], [7])
    story.end(1.0, "a")
    said = problems(told(tmp_path / "other", story))
    assert any("placed with 1 workers, but it needs 2 GPUs" in text for text in said)
    assert any("unknown hosts [7]" in text for text in said)


def test_samples_that_disagree_with_placements(tmp_path: Path) -> None:
    story = sampled()
    story.samples[-1] = (10.0, 1, 2.0, 1.0, 0.0, 0.0)
    assert any("such as t = 10.000 s" in text for text in problems(told(tmp_path, story)))
