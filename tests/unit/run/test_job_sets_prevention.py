"""Sets of jobs whose modes are asked of the cluster: what is refused, what is recorded, and what prevention is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from analysis.measures.cluster.jobs import job_times
from analysis.records.cluster import load_cluster
from analysis.reports.cluster import cluster_frame, finish_cluster
from analysis.reports.cluster_console import print_clusters
from analysis.reports.pages.cluster import details
from runtime.run.jobs.replay import run_set
from tests.support.job_sets import checked_set, notes_of, run_rows, table_of

ASKING = ("strategy=star_h", "strategy.prevent=true", "prevention=star")
HOSTS = ("cluster.hosts.count=2", "cluster.hosts.overrides=null", "cluster.hosts.cpu_cores=64", "placement=spread")
SLOW = ("straggler=persistent", "strategy.warmup_iters=0")
BSP = ["strategy.modes=[ssgd]", "strategy.decision_s=0"]


def rows(iterations: int = 60) -> list[dict[str, Any]]:
    """Those of ``jobs=mode_change``, shorter: of the second most workers wait for one, the third waits for nobody."""
    waits = [*BSP, "straggler.targets=['worker:1']", "straggler.sleep_iters=1.0"]
    about = {"submit_s": 0.0, "gpus": 4, "servers": 1, "model": "resnet20"}
    return [
        {"job": "changes", **about, "iterations": iterations},
        {"job": "waits", **about, "iterations": iterations // 2, "settings": waits},
        {"job": "critical", **about, "iterations": iterations // 2, "settings": [*BSP, "straggler.intensity=0"]},
    ]


def test_without_it_what_is_asked_for_is_granted(tmp_path: Path) -> None:
    run_rows(tmp_path, rows()[:1], *HOSTS, *SLOW, "strategy=star_h", "strategy.prevent=true")
    reserved = [note for note in notes_of(tmp_path) if note["type"] == "Reserved"]
    assert reserved
    assert all(note["shares"] == [] for note in reserved)


@pytest.mark.long(like="test_models_that_jobs_name_reach_the_policy")
def test_prevention_lets_the_critical_neighbour_be(tmp_path: Path) -> None:
    """STAR's observation 5 and section IV-D1: leaving SSGD slows who waits for nobody, prevention does not."""
    took: dict[str, Any] = {}
    arms = {"ssgd": tuple(BSP), "off": (), "on": ("strategy.prevent=true", "prevention=star")}
    for arm, words in arms.items():
        checked = checked_set(rows(), *HOSTS, *SLOW, "strategy=star_h", "replay.max_iterations=null", *words)
        run_set(checked, tmp_path / arm)
        table = table_of(tmp_path / arm)
        took[arm] = (table["end_s"] - table["start_s"]).to_dict()
    assert took["off"]["critical"] > 1.1 * took["ssgd"]["critical"]
    assert took["on"]["critical"] < 1.02 * took["ssgd"]["critical"]
    assert took["on"]["changes"] < 0.95 * took["ssgd"]["changes"]
    notes = notes_of(tmp_path / "on")
    kinds = {note["type"] for note in notes}
    assert {"Reserved", "Refused", "Released"} <= kinds
    cluster = load_cluster(tmp_path / "on")
    for job, found in cluster.jobs.set_index("job")[["granted", "refused"]].iterrows():
        asked = [note["type"] for note in notes if note.get("job") == job]
        assert found.tolist() == [asked.count("Reserved"), asked.count("Refused")]
    summary = finish_cluster(tmp_path / "on", draw=False)
    assert summary["refused"] == sum(note["type"] == "Refused" for note in notes) > 0
    console = Console(record=True, width=300)
    print_clusters(cluster_frame(cluster.meta, summary), console)
    assert f"{summary['granted']} / {summary['refused']}" in console.export_text()
    assert ">refused</th>" in details(job_times(cluster), None, cluster.path)
    granted = next(note for note in notes if note["type"] == "Reserved")
    assert {share["job"] for share in granted["shares"]} == {"changes", "waits"}
    assert granted["added_s"] == pytest.approx(0.0, abs=1e-9)


def test_models_that_jobs_name_reach_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from strategies.cluster.prevention import star

    asked: list[Any] = []
    answer = star.StarPrevention.answer
    monkeypatch.setattr(star.StarPrevention, "answer", lambda self, one: asked.append(one) or answer(self, one))
    run_rows(tmp_path, [rows()[0], {**rows()[2], "model": "vgg16"}], *HOSTS, *SLOW, *ASKING)
    assert {(job.job, job.model) for job in asked[0].jobs} == {("changes", "resnet20"), ("critical", "vgg16")}
