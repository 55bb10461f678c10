"""What jobs of a cluster have learnt and when: records written by hand."""

from __future__ import annotations

from math import exp, inf, isnan
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from analysis.experiments.cluster_measures import CLUSTER_MEASURES, digest
from analysis.experiments.results import measure_sets
from analysis.experiments.spec import cells
from analysis.measures.metrics import CONVERGED
from analysis.records.cluster import load_cluster
from analysis.records.job_evaluations import read_evaluations
from analysis.records.load import RecordError
from tests.support.cluster_records import ClusterStory
from tests.unit.analysis.test_cluster_experiments import SETS, told
from tests.unit.analysis.test_experiments import spec_of

LEARNS = {**SETS, "target": {"system": "asp"}, "paired": {}, "measures": ["converged_metric_mean"]}
LEARNS["figure"] = {"kind": "bars", "value": "tta_s"}


def evaluated(asked_s: float, accuracy: float | None) -> bytes:
    event = {"type": "Evaluated", "t": asked_s + 0.5, "version": 1, "asked_s": asked_s}
    event["metrics"] = {"accuracy": accuracy, "loss": 1.0 - (accuracy or 0.0)}
    return msgspec.json.encode({"seq": 0, "t": asked_s + 0.5, "kind": "event", "event": event}) + b"\n"


def written(root: Path, **curves: list[float]) -> Path:
    """The story of two jobs, in which each has an evaluation per second: an accuracy, and what it lacks as loss."""
    told().write(root)
    for job, values in curves.items():
        folder = root / "jobs" / job
        folder.mkdir(parents=True, exist_ok=True)
        about = {"metric": "accuracy", "higher_is_better": True}
        (folder / "meta.json").write_bytes(msgspec.json.encode({"schema": 1, "job": about}))
        lines = [evaluated(float(second), value) for second, value in enumerate(values)]
        with (folder / "events.jsonl").open("ab") as log:
            log.write(b"".join(lines))
    return root


RISING, LOW, LATE = [0.0, 0.5, 0.8, 0.8, 0.8, 0.8], [0.0, 0.2, 0.4, 0.4, 0.4, 0.4], [0.0, 0.1, 0.1, 0.1, 0.5, 0.9]


@pytest.mark.parametrize(("level", "bsp_s", "asp_s"), [("asp", inf, 2.0), ("all", 1.4, 1.4)])
def test_jobs_are_measured_by_the_loss_that_the_same_job_of_the_reference_converges_to(
    level: str, bsp_s: float, asp_s: float, tmp_path: Path
) -> None:
    """Goals 0.6 (a) and 0.2 (b): bsp's a is there after 0.8 s and its b never. All reach 0.6, after 0.8 and 2 s."""
    spec = spec_of(tmp_path, **{**LEARNS, "target": {"system": level}}, seeds=[0])
    curves = {"bsp_seed0": {"a": RISING, "b": LOW}, "asp_seed0": {"a": LOW, "b": RISING}}
    runs = [(cell, load_cluster(written(tmp_path / cell.name, **curves[cell.name]))) for cell in cells(spec)]
    frame = measure_sets(spec, runs)[0].set_index("system")
    assert spec.measured == ["converged_metric_mean", "tta_s"]
    assert frame["tta_s"].to_dict() == pytest.approx({"bsp": bsp_s, "asp": asp_s})
    assert frame["converged_metric_mean"].tolist() == pytest.approx([0.6, 0.6])
    alone = measure_sets(spec, [run for run in runs if run[0].levels["system"] == "bsp"])[0]
    assert alone["tta_s"].isna().all()


def test_the_share_of_jobs_that_ended_because_they_had_converged(tmp_path: Path) -> None:
    jobs = ClusterStory(gpus=(3,))
    for job, reason in (("a", f"accuracy{CONVERGED}"), ("b", "all samples used"), ("c", f"loss{CONVERGED}")):
        jobs.submit(0.0, job, gpus=1)
        jobs.start(0.0, job, [0], [0])
        jobs.end(4.0, job, "done", reason)
    run = digest(load_cluster(jobs.write(tmp_path / "run")))
    assert CLUSTER_MEASURES["converged_frac"](run) == pytest.approx(2 / 3)


def test_a_rate_until_the_target(tmp_path: Path) -> None:
    """Both are done when the last job ends at 12 s; asp's jobs are at their goals after 2 s."""
    wanted = {"measures": ["converged_metric_mean", "makespan_s"], "until_target": {"spent": "makespan_s"}}
    spec = spec_of(tmp_path, **{**LEARNS, **wanted}, seeds=[0])
    assert spec.measured[:3] == ["converged_metric_mean", "makespan_s", "spent"]
    runs = [(cell, load_cluster(written(tmp_path / cell.name, a=LOW, b=RISING))) for cell in cells(spec)]
    frame = measure_sets(spec, runs)[0].set_index("system")
    assert frame.loc["asp", "spent"] == frame.loc["asp", "makespan_s"] * 2.0


def test_what_is_converged_to_is_the_mean_of_the_last_fifth(tmp_path: Path) -> None:
    run = digest(load_cluster(written(tmp_path / "run", a=LATE, b=RISING)))
    assert run.learning.settled() == pytest.approx({"a": 0.7, "b": 0.8})
    assert CLUSTER_MEASURES["converged_metric_mean"](run) == pytest.approx(0.75)
    assert CLUSTER_MEASURES["perplexity_mean"](run) == pytest.approx((exp(0.3) + exp(0.2)) / 2)
    assert run.learning.reached_s({"a": 0.5}) == pytest.approx({"a": 4.0, "b": float("nan")}, nan_ok=True)
    assert run.learning.reached_s({"a": 0.7}) == pytest.approx({"a": 3.5, "b": float("nan")}, nan_ok=True)
    run = digest(load_cluster(written(tmp_path / "never", a=RISING)))
    assert isnan(CLUSTER_MEASURES["converged_metric_mean"](run)), "a job was never evaluated"
    assert isnan(CLUSTER_MEASURES["perplexity_mean"](run))


def test_evaluations_are_all_that_is_read_and_a_torn_end_is_left_out(tmp_path: Path) -> None:
    note = b'{"seq":0,"t":0.0,"kind":"note","note":{"type":"Finished","reason":"Evaluated"}}\n'
    (tmp_path / "events.jsonl").write_bytes(
        evaluated(2.0, 0.5) + note + evaluated(1.0, None) + evaluated(3.0, 0.9)[:-9]
    )
    frame = read_evaluations(tmp_path)
    expected = pd.DataFrame({"asked_s": [1.0, 2.0], "accuracy": [float("nan"), 0.5], "loss": [1.0, 0.5]})
    pd.testing.assert_frame_equal(frame, expected)
    assert read_evaluations(tmp_path / "nowhere").empty
    line = evaluated(3.0, 0.9)
    joined = b'{"t":1.0,"event":{"type":"Updated","server":0,' + line
    for damaged in (line[:-9] + b"\n", joined, line.replace(b"asked_s", b"asked")):
        (tmp_path / "events.jsonl").write_bytes(damaged + evaluated(4.0, 0.9))
        with pytest.raises(RecordError, match=r"events\.jsonl:1: .*damaged"):
            read_evaluations(tmp_path)
