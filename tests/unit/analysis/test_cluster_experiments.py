"""Experiments whose runs are sets of jobs: their description, and measures of records written by hand."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, isnan
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from analysis.experiments.cluster_measures import CLUSTER_MEASURES, Digest, digest, paired_ratio
from analysis.experiments.results import measure_sets
from analysis.experiments.spec import PAIRED, SpecError, cells
from analysis.measures.cluster.hosts import busy_shares
from analysis.measures.metrics import CONVERGED
from analysis.records.cluster import load_cluster
from analysis.records.job_evaluations import read_evaluations
from analysis.records.load import RecordError
from tests.support.cluster_records import ClusterStory
from tests.unit.analysis.test_cluster_jobs import PAYLOAD
from tests.unit.analysis.test_cluster_stragglers import USUAL
from tests.unit.analysis.test_experiments import spec_of

SETS: dict[str, Any] = {
    "settings": ["runtime=virtual", "jobs=philly"],
    "axes": {"system": {"bsp": ["strategy=bsp"], "asp": ["strategy=asp"]}},
    "measures": ["jct_mean_s", "stragglers_per_job"],
    "paired": {"system": "bsp"},
    "figure": {"kind": "bars", "value": "jct_mean_s"},
}


def told(end_s: float = 10.0, **more: Any) -> ClusterStory:
    """Job a runs from 0 to ``end_s``, b waits for 2 s and runs until 12 s; a's worker 1 straggles by its link."""
    story = ClusterStory(gpus=(2, 2), **more)
    story.submit(0.0, "a", gpus=2, servers=1)
    story.submit(0.0, "b", gpus=2, servers=1)
    story.start(0.0, "a", [0, 0], [1])
    story.start(2.0, "b", [1, 1], [1])
    story.end(end_s, "a")
    story.end(12.0, "b")
    slow = {**USUAL, "send_s": 0.6}
    for number in range(6):
        story.iterate("a", number, [USUAL, slow if number in (1, 2, 4) else USUAL])
        story.iterate("b", number, [USUAL, USUAL])
    return story


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Digest:
    return digest(load_cluster(told().write(tmp_path_factory.mktemp("plain") / "run")))


def test_measures_by_hand(plain: Digest) -> None:
    found = {name: measure(plain) for name, measure in CLUSTER_MEASURES.items()}
    assert plain.is_done
    assert (found["jct_mean_s"], found["jct_median_s"], found["makespan_s"]) == (11.0, 10.0, 12.0)
    assert (found["queue_mean_s"], found["run_mean_s"]) == (1.0, 10.0)
    assert found["gpu_use_frac"] == pytest.approx(40 / 48)
    assert found["straggler_iterations_frac"] == pytest.approx(3 / 12)
    for name in ("jobs_any_frac", "job_most_frac", "communication_any_frac", "jobs_short_frac"):
        assert found[name] == pytest.approx(0.5)
    for name in ("compute_any_frac", "data_any_frac", "jobs_some_longer_frac"):
        assert found[name] == 0.0
    assert found["stragglers_per_job"] == 1.5  # of two jobs: three pairs of worker and iteration, in two episodes
    assert found["episodes_per_job"] == found["lost_link_frac"] == 1.0
    assert found["communication_half_frac"] == pytest.approx(3 / 24)  # 0.9 of 1.5 s; else 0.4 of 1 s
    assert found["rise_frac"] == pytest.approx(2 / 20)  # into iterations 1 and 4, of 5 changes by each of 4 workers
    assert found["fall_frac"] == pytest.approx(2 / 20)


def test_a_job_without_an_end_makes_times_infinite(tmp_path: Path) -> None:
    story = told()
    story.submit(1.0, "c", gpus=2)
    run = digest(load_cluster(story.write(tmp_path / "run", finished=False)))
    assert not run.is_done
    assert CLUSTER_MEASURES["jct_mean_s"](run) == CLUSTER_MEASURES["makespan_s"](run) == inf
    assert CLUSTER_MEASURES["jct_median_s"](run) == 12.0
    story = told()
    story.rows.clear()
    run = digest(load_cluster(story.write(tmp_path / "no records of jobs")))
    for name in ("stragglers_per_job", "straggler_iterations_frac", "beside_servers_rise_frac"):
        assert isnan(CLUSTER_MEASURES[name](run))


def test_how_often_hosts_are_busy_by_their_servers(tmp_path: Path) -> None:
    """Host 1 has one server until 2 s and two until 10 s; host 0 has none. 8 cores, 1 GB/s each."""
    story = told()
    story.samples = [
        (1.0, 0, 2.0, 8.0, 0.0, 0.0),
        (1.0, 1, 0.0, 2.0, 0.0, 0.95 * PAYLOAD),
        (3.0, 1, 2.0, 7.9, 0.1e9, 0.2e9),
        (4.0, 1, 2.0, 7.0, 0.99 * PAYLOAD, 0.2e9),
    ]
    cluster = load_cluster(story.write(tmp_path / "run"))
    assert busy_shares(cluster, "cpu", 0.9, (1, 1)) == 0.0
    assert busy_shares(cluster, "cpu", 0.9, (2, None)) == 0.5
    assert busy_shares(cluster, "cpu", 0.98, (0, 0)) == 1.0
    assert busy_shares(cluster, "link", 0.9, (1, 1)) == 1.0
    assert busy_shares(cluster, "link", 0.98, (1, None)) == pytest.approx(1 / 3)
    assert isnan(busy_shares(cluster, "cpu", 0.9, (5, None)))


def apart() -> ClusterStory:
    """Job a: two workers on host 0, its server on host 1, for 10 s; 8 cores, 1 GB/s each. Host 2 has nothing to do."""
    story = ClusterStory(gpus=(2, 0, 2))
    story.submit(0.0, "a", gpus=2, servers=1)
    story.start(0.0, "a", [0, 0], [1])
    story.end(10.0, "a")
    for number in range(3):
        story.iterate("a", number, [USUAL, USUAL])
    for t, cores in ((5.0, (2.0, 3.0)), (10.0, (4.0, 7.0))):
        story.samples += [(t, 0, 2.0, cores[0], 100.0, 300.0), (t, 1, 0.0, cores[1], 300.0, 100.0), (t, 2, *[0.0] * 4)]
    return story


def test_what_a_task_uses_where_hosts_hold_one_role_only(tmp_path: Path, plain: Digest) -> None:
    run = digest(load_cluster(apart().write(tmp_path / "run")))
    found = {name: measure(run) for name, measure in CLUSTER_MEASURES.items()}
    assert (found["server_cores"], found["worker_cores"], found["used_cores"]) == (5.0, 1.5, 8.0)
    rates = [found[f"{name}_bytes_per_s"] for name in ("server", "worker", "used")]
    assert rates == [300.0, 150.0, 600.0]
    assert found["server_cores_over_worker_frac"] == pytest.approx(5.0 / 1.5 - 1.0)
    assert found["server_bytes_over_worker_frac"] == 1.0
    assert isnan(CLUSTER_MEASURES["server_cores"](plain))  # servers are next to workers, and there are no samples


def test_workers_next_to_servers_of_others(tmp_path: Path) -> None:
    """Host 1 has a's server, and b's workers from 2 s on; both jobs are at it until 10 s."""
    story = told()
    story.samples = [
        (1.0, 1, 0.0, 8.0, 0.0, 1e9),  # b is not there yet
        (3.0, 1, 2.0, 2.0, 0.5 * PAYLOAD, 0.1e9),
        (9.0, 1, 2.0, 4.0, 0.1e9, 0.3 * PAYLOAD),
        (11.0, 1, 2.0, 8.0, 0.0, 1e9),  # a has gone
        (3.0, 0, 2.0, 8.0, 0.0, 1e9),  # a's workers are next to nobody's server
    ]
    story.rows.pop("b")
    slow = {**USUAL, "compute_s": USUAL["compute_s"] + 1.0}
    for number in range(12):  # 1 s each on b's own clock, which begins at 2 s; the last four begin after 10 s
        story.iterate("b", number, [USUAL, slow if number in (7, 10) else USUAL], t=float(number))
    run = digest(load_cluster(story.write(tmp_path / "run")))
    found = {name: measure(run) for name, measure in CLUSTER_MEASURES.items()}
    assert set(run.beside["job"]) == {"b"}
    assert run.beside["iterations"].tolist() == [8, 8]
    assert found["beside_server_s"] == pytest.approx((1.0 + (7 * 1.0 + 2.0) / 8) / 2)
    assert found["beside_server_straggler_frac"] == pytest.approx(1 / 16)
    assert found["beside_server_cpu_frac"] == pytest.approx(3 / 8)
    assert found["beside_server_link_frac"] == pytest.approx(0.4)
    alone = digest(load_cluster(apart().write(tmp_path / "alone")))
    assert isnan(CLUSTER_MEASURES["beside_server_s"](alone))
    assert isnan(CLUSTER_MEASURES["beside_server_cpu_frac"](alone))


def test_only_the_worker_on_that_host_is_next_to_the_server(tmp_path: Path) -> None:
    """b's worker 0 is on host 1 with a's server, its worker 1 is not, and its own server is no other job's."""
    story = ClusterStory(gpus=(2, 2, 2))
    for job in "ab":
        story.submit(0.0, job, gpus=2, servers=1)
    story.start(0.0, "a", [0, 0], [1])
    story.start(0.0, "b", [1, 2], [2])
    for job in "ab":
        for number in range(4):
            story.iterate(job, number, [USUAL, USUAL])
        story.end(9.0, job)
    run = digest(load_cluster(story.write(tmp_path / "run")))
    assert run.beside[["job", "worker", "iterations"]].to_numpy().tolist() == [["b", 0, 4]]


def found_of(plain: Digest, **found: pd.DataFrame) -> Digest:
    """Of a run in which this was found of stragglers; tables that are not given are those of ``plain``."""
    assert plain.found is not None
    return replace(plain, found=replace(plain.found, **found))


def test_lengths_of_episodes_at_their_limits(plain: Digest) -> None:
    """Four jobs with nine episodes of 3 iterations and one of 10 (short), of 11 or 50 (longer), or of 51 (neither)."""
    lengths = {"short": 10, "longer": 11, "longest": 50, "more": 51}
    rows = [{"job": job, "iterations": number} for job, most in lengths.items() for number in (*[3] * 9, most)]
    run = found_of(plain, jobs=pd.DataFrame({"job": list(lengths)}), episodes=pd.DataFrame(rows))
    assert CLUSTER_MEASURES["jobs_short_frac"](run) == 1 / 4
    assert CLUSTER_MEASURES["jobs_some_longer_frac"](run) == 2 / 4


def test_parts_of_causes_add_up_and_pairs_of_worker_and_iteration_count_alike(plain: Digest) -> None:
    """Half of 10 x 2, none of 10 x 6; nothing is known of the third job."""
    jobs = pd.DataFrame({"rise_frac": [0.5, 0.0, float("nan")], "compared": [10, 10, 0], "workers": [2, 6, 3]})
    run = found_of(plain, jobs=jobs)
    assert CLUSTER_MEASURES["rise_frac"](run) == pytest.approx(10 / 80)
    lost = {"processor": 1.0, "link": 3.0, "peers": 4.0}
    run = replace(run, summary={**run.summary, "stragglers": {"causes_lost_s": lost}})
    found = [CLUSTER_MEASURES[f"lost_{cause}_frac"](run) for cause in ("processor", "link", "servers", "peers")]
    assert found == [0.125, 0.375, 0.0, 0.5]


def test_more_servers_on_the_host_more_stragglers(plain: Digest) -> None:
    """Above 20 %: one of ten workers with one server on their host, four of ten with three; just 20 % is none."""
    counts = {("servers=1", 0.2): 9, ("servers=1", 0.3): 1, ("servers=2", 0.3): 7, ("servers=3", 0.2): 6}
    counts |= {("servers=3", 0.25): 1, ("servers=3", 0.4): 3}
    rows = [{"kind": kind, "up_to": up_to, "count": count} for (kind, up_to), count in counts.items()]
    run = found_of(plain, deviations=pd.DataFrame(rows))
    assert CLUSTER_MEASURES["beside_servers_rise_frac"](run) == pytest.approx(0.4 - 0.1)


def test_hosts_of_many_servers_are_busy_more_often(tmp_path: Path) -> None:
    """Host 0 has one server and is busy in one sample of four, host 1 has five and is in three. 8 cores each."""
    story = ClusterStory(gpus=(2, 2))
    story.submit(0.0, "a", gpus=1, servers=6)
    story.start(0.0, "a", [0], [0, *[1] * 5])
    story.end(10.0, "a")
    busy = {0: (8.0, 1.0, 1.0, 1.0), 1: (8.0, 8.0, 1.0, 7.5)}
    story.samples = [(t, host, 1.0, busy[host][t], 0.0, 0.0) for t in range(4) for host in busy]
    run = digest(load_cluster(story.write(tmp_path / "run")))
    assert CLUSTER_MEASURES["cpu_above_90_rise_frac"](run) == pytest.approx(3 / 4 - 1 / 4)
    assert CLUSTER_MEASURES["cpu_above_98_rise_frac"](run) == pytest.approx(2 / 4 - 1 / 4)


@pytest.mark.long(like="test_jobs_are_measured_by_the_loss_that_the_same_job_of_the_reference_converges_to")
def test_jobs_are_paired_with_the_same_jobs_of_the_reference(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, **SETS)
    assert (spec.clusters, spec.columns) == (True, ["jct_mean_s", "stragglers_per_job", PAIRED])
    assert not spec_of(tmp_path, settings=["runtime=virtual", "jobs=none"]).clusters
    ends = {"bsp_seed0": 10.0, "asp_seed0": 5.0, "bsp_seed1": 8.0, "asp_seed1": 6.0}
    runs = [(cell, load_cluster(told(ends[cell.name]).write(tmp_path / cell.name))) for cell in cells(spec)]
    frame = measure_sets(spec, runs)[0].set_index(["system", "seed"])
    assert frame[PAIRED].to_dict() == {("bsp", 0): 1.0, ("asp", 0): 0.75, ("bsp", 1): 1.0, ("asp", 1): 0.875}
    assert frame.loc[("asp", 0), "jct_mean_s"] == 8.5
    assert frame["completed"].all()
    alone = measure_sets(spec, [run for run in runs if run[0].levels["system"] == "asp"])[0]
    assert alone[PAIRED].isna().all()


def test_a_pair_needs_the_same_job() -> None:
    rows = [["a", 0.0, 2, 4.0], ["b", 0.0, 2, inf], ["c", 0.0, 2, 9.0]]
    ours = pd.DataFrame(rows, columns=["job", "submit_s", "gpus", "jct_s"])
    theirs = ours.assign(jct_s=[2.0, inf, 3.0], submit_s=[0.0, 0.0, 1.0])
    assert paired_ratio(ours, theirs) == 2.0  # b ended in neither, c was submitted at another time
    assert isnan(paired_ratio(ours, theirs.assign(gpus=3)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"measures": ["wait_frac"]}, "measures: wait_frac is not of sets of jobs; there are jct_mean_s, "),
        ({"settings": ["runtime=virtual"]}, "paired: is of sets of jobs; give every run jobs=NAME"),
        ({"settings": ["runtime=virtual"], "paired": {}, "failing": True}, "failing: is of sets of jobs"),
        ({"settings": ["runtime=virtual"], "paired": {}}, "measures: jct_mean_s: is of sets of jobs"),
        ({"axes": {"system": {"bsp": [], "one": ["jobs=none"]}}}, "jobs: one_seed0 is one job and others are sets"),
        ({"gain": {"axis": "system", "for_s": 1}, "axes": {"system": {"1": []}}, "paired": {}}, "gain: is of single"),
        ({"until_target": {"core_s": "jct_mean_s"}}, "until_target: core_s: needs a target"),
        ({"target": {"system": "bsp"}, "until_target": {"core_s": "used_cores"}}, "used_cores is not one of the meas"),
        ({"excess": {"more_s": {"system": "bsp"}}}, "excess: is of single jobs; leave it out"),
        ({"axes": {**SETS["axes"], "try": {"1": [], "2": []}}, "repeats": "try"}, "repeats: is of single jobs"),
        ({"paired": {"system": "ssp"}}, "paired: system=ssp is no level"),
        ({"figure": {"kind": "gantt"}}, "figure: kind=gantt shows a single job; there are bars, groups, "),
        ({"figure": {"kind": "bars"}}, "figure: value: jct_s is not measured (jct_mean_s, stragglers_per_job, "),
    ],
)
def test_what_makes_no_sense_of_sets_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        spec_of(tmp_path, **{**SETS, **changes})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


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


@pytest.mark.few(1)
@pytest.mark.parametrize(("level", "bsp_s", "asp_s"), [("asp", inf, 2.0), ("all", 1.4, 1.4)])
def test_jobs_are_measured_by_the_loss_that_the_same_job_of_the_reference_converges_to(
    level: str, bsp_s: float, asp_s: float, tmp_path: Path
) -> None:
    """Goals 0.6 (a) and 0.2 (b): bsp's a is there after 0.8 s and its b never. All reach 0.6, after 0.8 and 2 s."""
    spec = spec_of(tmp_path, **{**LEARNS, "target": {"system": level}}, seeds=[0])
    curves = {"bsp_seed0": {"a": RISING, "b": LOW}, "asp_seed0": {"a": LOW, "b": RISING}}
    runs = [(cell, load_cluster(written(tmp_path / cell.name, **curves[cell.name]))) for cell in cells(spec)]
    frame = measure_sets(spec, runs)[0].set_index("system")
    assert spec.columns == ["converged_metric_mean", "tta_s"]
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
    assert spec.columns[:3] == ["converged_metric_mean", "makespan_s", "spent"]
    runs = [(cell, load_cluster(written(tmp_path / cell.name, a=LOW, b=RISING))) for cell in cells(spec)]
    frame = measure_sets(spec, runs)[0].set_index("system")
    assert frame.loc["asp", "spent"] == frame.loc["asp", "makespan_s"] * 2.0


def test_what_is_converged_to_is_the_mean_of_the_last_fifth(tmp_path: Path) -> None:
    run = digest(load_cluster(written(tmp_path / "run", a=LATE, b=RISING)))
    assert run.learning.converged_values() == pytest.approx({"a": 0.7, "b": 0.8})
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
