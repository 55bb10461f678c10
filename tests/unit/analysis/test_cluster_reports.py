"""What a run of a cluster leaves on disk and on the terminal, alone and compared with others."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

from analysis.figures.cluster.curves import distribution, distribution_of_bins, looks_of
from analysis.figures.cluster.stragglers import cause_shares
from analysis.figures.cluster.use import draw_host_use, thin_rows
from analysis.figures.page import styled
from analysis.measures.cluster.comparing import cluster_table, cluster_warnings, compare_clusters_table, paired_jobs
from analysis.measures.cluster.labels import cluster_labels, settings_of
from analysis.records.load import RecordError
from analysis.reports.cluster import cluster_frame, compare_clusters, finish_cluster
from analysis.reports.cluster_console import print_clusters
from stragglab.commands import figures as script
from tests.support.cluster_records import ClusterStory, meta
from tests.support.pages import Reader, loaded
from tests.support.records import bsp_story
from tests.unit.analysis.test_cluster_records import two_jobs
from tests.unit.analysis.test_cluster_stragglers import SLOWER, USUAL, shared_hosts

PNG = b"\x89PNG\r\n\x1a\n"
SERVICES = [30.0, 4.0, 9.0, 2.0, 16.0, 5.0]


def one_gpu(policy: str, seed: int = 0) -> ClusterStory:
    """Six jobs of one GPU, all there at the start: in order (``fifo``), or the shortest first (``sjf``)."""
    jobs = [(f"j{number}", service_s + seed) for number, service_s in enumerate(SERVICES)]
    story, t = ClusterStory(gpus=(1,), seed=seed, cluster={"policy": policy}), 0.0
    for job, service_s in jobs:
        story.submit(0.0, job, gpus=1, duration_s=service_s)
    for job, service_s in jobs if policy == "fifo" else sorted(jobs, key=lambda each: each[1]):
        story.start(t, job, [0])
        t += service_s
        story.end(t, job)
    return story


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep")
    for number, (policy, seed) in enumerate([("fifo", 0), ("sjf", 0), ("fifo", 1), ("sjf", 1)]):
        one_gpu(policy, seed).write(root / f"{number}_{policy}")
    return root


@pytest.mark.long(like="test_policies_compared")
@pytest.mark.painted
def test_a_run_in_detail_leaves_all_of_it(tmp_path: Path) -> None:
    story = shared_hosts()
    story.samples = [(12.0, 1, 1.0, 4.0, 1e8, 1e8)]
    path = story.write(tmp_path / "run")
    summary = finish_cluster(path)
    assert json.loads((path / "summary.json").read_text()) == summary
    figures = {"job_times", "gpu_use", "hosts", "host_use", "stragglers", "straggler_causes"}
    assert {file.stem for file in path.glob("figures/*.png")} == figures == {f.stem for f in path.glob("figures/*.csv")}
    assert all(file.read_bytes().startswith(PNG) for file in path.glob("figures/*.png"))
    tables = {"job_times", "use", "host_use", "stragglers", "episodes", "deviations"}
    assert {file.stem for file in path.glob("tables/*.parquet")} == tables
    episodes = pd.read_parquet(path / "tables" / "episodes.parquet")
    assert episodes[["job", "cause", "neighbours", "server_neighbours"]].to_numpy().tolist() == [
        ["a", "link", "b", "c"]
    ]
    text = (path / "report.html").read_text()
    page = Reader(text)
    assert (len(page.loads), loaded(text)) == (len(figures), [])
    for said in ("policy: fifo", "4 jobs on 4 hosts with 7 GPUs", "link"):
        assert said in page.text


def waits_forever() -> ClusterStory:
    story = ClusterStory(gpus=(1,))
    story.submit(0.0, "a", gpus=1)
    story.note(3.0, "Queued", job="a")
    return story


def killed_at_once() -> ClusterStory:
    story = shared_hosts()
    story.notes = [note for note in story.notes if note[0] < 15.0]
    return story


@pytest.mark.few(1)
@pytest.mark.parametrize("tell", [pytest.param(ClusterStory, marks=pytest.mark.painted), waits_forever, killed_at_once])
def test_runs_that_came_to_little_are_finished(tell: Any, tmp_path: Path) -> None:
    path = tell().write(tmp_path / "run", finished=False)
    summary = finish_cluster(path)
    assert summary["status"] == "killed"
    assert summary["jobs_completed"] == 0
    assert summary["makespan_s"] is None
    assert (path / "report.html").exists()


def test_what_was_not_modelled_is_not_drawn_as_zero(tmp_path: Path) -> None:
    story = two_jobs()
    story.samples = [(2.0, host, gpus, 0.0, 0.0, 0.0) for host, gpus in enumerate((2.0, 0.0))]
    story.cluster = {"replay": {"detail": "gpus_only"}}
    path = story.write(tmp_path / "run")
    assert finish_cluster(path, draw=False)["integrity"] == {"ok": True, "problems": [], "unchecked": []}
    use = pd.read_parquet(path / "tables" / "host_use.parquet")
    assert use[["cpu_frac", "link_frac"]].isna().all(axis=None)
    assert use["gpu_use_frac"].gt(0.0).all()


def test_the_table_of_a_run(tmp_path: Path) -> None:
    path = two_jobs().write(tmp_path / "run")
    file = io.StringIO()
    frame = cluster_frame(json.loads((path / "meta.json").read_text()), finish_cluster(path, draw=False))
    print_clusters(frame, Console(file=file))
    row = file.getvalue().splitlines()[-2].split()
    assert row == ["fifo", "1", "2/2", "9.0", "4.0", "14.0", "2.0", "1.33", "14", "60.7", "1"]
    assert not (path / "figures").exists()
    assert not (path / "report.html").exists()


@pytest.mark.painted
def test_policies_compared(sweep: Path, tmp_path: Path) -> None:
    """By hand: with fifo the jobs end at 30, 34, 43, 45, 61, 66; with sjf at 66, 6, 20, 2, 36, 11 (seed 0)."""
    table = compare_clusters(sorted(sweep.iterdir()), tmp_path)
    assert table.attrs["baseline"] == "fifo"
    fifo, sjf = (row for _, row in table.iterrows())
    assert (fifo.label, sjf.label, sjf.runs, sjf.seeds, sjf.jobs) == ("fifo", "sjf", 2, 2, 12)
    means = [279 / 6, (279 + 21) / 6], [141 / 6, (141 + 21) / 6]
    assert (fifo.jct_mean_s, sjf.jct_mean_s) == tuple(pytest.approx(sum(both) / 2) for both in means)
    zero = sorted(b / a for a, b in zip((30, 34, 43, 45, 61, 66), (66, 6, 20, 2, 36, 11), strict=True))
    one = sorted(b / a for a, b in zip((31, 36, 46, 49, 66, 72), (72, 8, 24, 3, 41, 14), strict=True))
    medians = [(each[2] + each[3]) / 2 for each in (zero, one)]
    assert sjf.jct_ratio == pytest.approx(sum(medians) / 2)
    assert (sjf.jct_ratio_low, sjf.jct_ratio_high) == pytest.approx(by_student(medians))
    assert (fifo.jct_mean_s_low, fifo.jct_mean_s_high) == pytest.approx(by_student(means[0]))
    assert (sjf.ratio_over, sjf.pairs, isnan(fifo.jct_ratio)) == ("seeds", 12, True)
    names = {file.name for file in tmp_path.iterdir()}
    assert {"clusters.csv", "clusters.json", "job_ratios.csv", "report.html", "figures", "SHA256SUMS"} == names
    assert {file.stem for file in tmp_path.glob("figures/*.png")} == {"job_times", "job_ratios", "gpu_use"}
    text = (tmp_path / "report.html").read_text()
    page = Reader(text)
    assert (len(page.loads), loaded(text)) == (3, [])
    assert "policy: fifo, sjf" in page.text
    assert "2 seeds only: intervals are wide; five or more" in page.text


def by_student(values: Sequence[float]) -> tuple[float, float]:
    """Of the logarithms. A bootstrap spans at most the least to the largest, which of two covers half of all cases."""
    logs = np.log(values)
    low, high = stats.t.interval(0.95, len(logs) - 1, loc=logs.mean(), scale=stats.sem(logs))
    return float(np.exp(low)), float(np.exp(high))


def test_one_seed_says_that_its_interval_is_over_jobs(sweep: Path, tmp_path: Path) -> None:
    table = compare_clusters([sweep / "0_fifo", sweep / "1_sjf"], tmp_path, baseline="sjf", draw=False)
    assert table["ratio_over"].tolist() == ["jobs", "jobs"]
    assert any("one seed" in text for text in table.attrs["warnings"])
    assert table["jct_ratio"][0] > 1.0


def test_stored_stragglers_are_used_only_while_the_record_is_older(tmp_path: Path) -> None:
    path = shared_hosts().write(tmp_path / "run")
    finish_cluster(path, draw=False)
    other = ClusterStory(gpus=(1,))
    for number in range(12):
        other.iterate("a", number, [USUAL, {**USUAL, **SLOWER["link"]}])
    pd.DataFrame(other.rows["a"]).astype({"cpu_s": float}).to_parquet(path / "jobs" / "a" / "iterations.parquet")
    share = "iterations_with_straggler_frac"
    assert compare_clusters([path], tmp_path / "out", draw=False)[share][0] == pytest.approx(2 / 12)
    log = path / "cluster.jsonl"
    later = max(file.stat().st_mtime for file in path.glob("tables/*")) + 10.0
    os.utime(log, (later, later))
    assert compare_clusters([path], tmp_path / "out", draw=False)[share][0] == 1.0


@pytest.mark.long(like="test_policies_compared")
def test_cases_have_pages_of_their_own(sweep: Path, tmp_path: Path) -> None:
    story = one_gpu("fifo")
    story.cluster["jobs"] = "philly"
    other = story.write(tmp_path / "philly")
    table = compare_clusters([sweep / "0_fifo", sweep / "1_sjf", other], tmp_path / "out")
    assert table["case"].tolist() == ["jobs=table", "jobs=table", "jobs=philly"]
    assert {path.parent.name for path in (tmp_path / "out").glob("figures/*/*.png")} == {
        "0_jobs_table",
        "1_jobs_philly",
    }


def test_what_cannot_be_compared_is_refused(sweep: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no cluster run to compare"):
        compare_clusters([tmp_path], tmp_path / "out")
    with pytest.raises(RecordError, match="baseline 'lifo' is not among the runs: fifo, sjf"):
        compare_clusters(sorted(sweep.iterdir()), tmp_path, baseline="lifo")


def test_pairs_are_of_the_same_job_and_size_and_may_be_infinite() -> None:
    """Infinite over finite is infinite, finite over infinite 0, and a pair of two infinite ones has no ratio."""
    times = ((1.0, 2.0, inf, inf, 1.0), [1, 1, 1, 1, 1]), ((2.0, inf, 3.0, inf, 4.0), [1, 1, 1, 1, 4])
    frames = [pd.DataFrame({"job": [*"abcde"], "submit_s": 0.0, "gpus": gpus, "jct_s": each}) for each, gpus in times]
    pairs = paired_jobs(frames, pd.DataFrame({"case": "", "label": ["x", "y"], "seed": 0}), "x")
    assert dict(zip(pairs["job"], pairs["ratio"], strict=True)) == {"a": 2.0, "b": inf, "c": 0.0}


def test_jobs_that_differ_are_not_paired(tmp_path: Path) -> None:
    frames = [pd.DataFrame({"job": ["a"], "submit_s": [t], "gpus": 1, "jct_s": 1.0}) for t in (0.0, 1.0)]
    runs = pd.DataFrame({"case": "", "label": ["x", "y"], "seed": 0, "jobs": 1, "jobs_completed": [1, 0]})
    runs = runs.assign(path=["p", "q"], status="done", warnings=[[], [{"what": "1 of its jobs: late"}]])
    assert not len(paired_jobs(frames, runs, "x"))
    said = cluster_warnings(runs, frames)
    assert any("2 different sets of jobs" in text for text in said)
    assert {"q: 1 of 1 jobs did not complete (done)", "y (seed 0), 1 of its jobs: late"} <= set(said)


def row_of(path: Path) -> pd.DataFrame:
    return cluster_table([json.loads((path / "meta.json").read_text())], [finish_cluster(path, draw=False)], [path])


def test_a_run_whose_job_never_ended_has_infinite_times_and_an_unknown_slowdown_is_not_infinite(tmp_path: Path) -> None:
    story = ClusterStory(gpus=(1,))
    story.submit(0.0, "a", gpus=1, duration_s=1.0)
    story.start(1.0, "a", [0])
    runs = row_of(story.write(tmp_path / "run", finished=False))
    names = ["jct_mean_s", "jct_median_s", "jct_p99_s", "slowdown_median", "makespan_s"]
    assert runs[names].iloc[0].tolist() == [inf] * 5
    assert runs["queue_mean_s"][0] == 1.0
    story = ClusterStory(gpus=(1,))
    story.submit(0.0, "a", gpus=1)
    story.start(0.0, "a", [0])
    story.end(2.0, "a")
    runs = row_of(story.write(tmp_path / "other"))
    assert isnan(runs["slowdown_median"][0])
    assert runs["jct_mean_s"][0] == 2.0
    pairs = pd.DataFrame({"case": [], "label": [], "seed": [], "job": [], "ratio": []})
    assert isnan(compare_clusters_table(runs, pairs)["jct_ratio"][0])


@pytest.mark.long(like="test_policies_compared")
def test_the_script_redraws_clusters(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main([str(sweep / "0_fifo"), str(sweep / "1_sjf"), "--out", str(tmp_path)]) == 0
    assert (sweep / "1_sjf" / "report.html").exists()
    assert (tmp_path / "report.html").exists()
    assert "sjf" in capsys.readouterr().out
    bsp_story().write(tmp_path / "single")
    assert script.main([str(sweep), str(tmp_path / "single")]) == 2
    assert "one kind" in capsys.readouterr().err


def test_labels_name_what_varies() -> None:
    files = [{**meta(strategy="star_h"), "fitted": [f"resources {digest}"]} for digest in ("aaaa0000", "bbbb1111")]
    assert cluster_labels([*files, {**meta(strategy="bsp"), "fitted": []}]) == (
        ["star_h fitted=resources aaaa0000", "star_h fitted=resources bbbb1111", "bsp"],
        ["", "", ""],  # in one case, or nobody would compare them
    )
    assert cluster_labels([meta(policy="fifo"), meta(policy="srtf")]) == (["fifo", "srtf"], ["", ""])
    assert cluster_labels([meta(strategy="bsp"), meta(strategy="asp")])[0] == ["bsp", "asp"]
    both = cluster_labels([meta(policy="fifo", strategy="bsp"), meta(policy="las", strategy="asp")])[0]
    assert both == ["fifo bsp", "las asp"]
    fields = [meta(policy="las", policy_fields={"quantum_s": value}) for value in (60.0, 600.0)]
    assert cluster_labels(fields)[0] == ["las quantum_s=60", "las quantum_s=600"]
    assert cluster_labels([meta((4, 4)), meta((8,))]) == (["fifo"] * 2, ["hosts=2 x 4 GPUs", "hosts=1 x 8 GPUs"])
    assert "seed" not in settings_of(meta(seed=3))


def test_distributions_count_infinite_values_and_thinned_steps_keep_their_area() -> None:
    curve = distribution(pd.Series([2.0, inf, 1.0, nan, inf]))
    assert curve.to_numpy().tolist() == [[1.0, 0.25], [2.0, 0.5]]
    bins = distribution_of_bins(pd.DataFrame({"up_to": [0.1, 0.2, inf], "count": [1, 2, 1]}))
    assert bins.to_numpy().tolist() == [[0.1, 0.25], [0.2, 0.75]]
    frame = pd.DataFrame({"t_s": [float(t) for t in range(1001)], "gpus_used": [t % 7 for t in range(1001)]})
    few = thin_rows(frame, most=50)
    assert len(few) == 50
    assert few["gpus_used"].sum() * 20.0 == pytest.approx(frame["gpus_used"][:-1].sum())
    assert thin_rows(frame, most=2000) is frame


def test_causes_as_shares() -> None:
    rows = [("link", 1.0, "b", ""), ("link", 2.0, "", ""), ("peers", 1.0, "", "")]
    episodes = pd.DataFrame(rows, columns=["cause", "lost_s", "neighbours", "server_neighbours"])
    shares = {row["of"]: (row["link"], row["peers"], row["episodes"]) for row in cause_shares(episodes, "")}
    assert shares["seconds lost"] == (0.75, 0.25, 3)
    assert shares["episodes"] == (pytest.approx(2 / 3), pytest.approx(1 / 3), 3)
    assert (shares["with neighbours"], shares["without neighbours"]) == ((1.0, 0.0, 1), (0.5, 0.5, 2))
    assert looks_of(["bsp", "asp"])["bsp"] == looks_of(["bsp"])["bsp"]


def test_hosts_of_which_nothing_is_known_are_not_among_the_bars(tmp_path: Path) -> None:
    """With counts of GPUs alone, a host without GPUs uses none of anything; with a processor's use it is there."""
    hosts = pd.DataFrame(
        {"host": [0, 1, 2], "gpu_use_frac": [0.5, np.nan, 0.1], "cpu_frac": np.nan, "link_frac": np.nan}
    )
    with styled():
        assert draw_host_use(tmp_path / "a.png", hosts, "") is not None
        assert draw_host_use(tmp_path / "b.png", hosts.assign(cpu_frac=[0.1, 0.2, np.nan]), "") is not None
    assert list(pd.read_csv(tmp_path / "a.csv")["host"]) == [0, 2]
    assert list(pd.read_csv(tmp_path / "b.csv")["host"]) == [0, 1, 2]


@pytest.mark.long(like="test_policies_compared")
def test_a_live_set_says_which_jobs_did_not_do_what_was_asked(tmp_path: Path) -> None:
    path = one_gpu("fifo").write(tmp_path / "run")
    about = json.loads((path / "meta.json").read_text()) | {"runtime": "live"}
    (path / "meta.json").write_text(json.dumps(about))
    for job, overrun_s in (("j0", 0.03), ("j1", 0.01), ("j2", 0.0)):
        story = bsp_story(plan=())
        for line in story.lines:
            if line.get("event", {}).get("type") == "Arrived" and line["event"]["grad"]["worker"] == 3:
                line["event"]["timings"]["overrun_s"] = overrun_s
        story.write(path / "jobs" / job)
    (path / "jobs" / "j3").mkdir()
    found = finish_cluster(path)["warning"]
    assert found.startswith("2 of its jobs: paced devices could not keep up: 8 of 32 iterations took 0.24 s longer")
    assert found in Reader((path / "report.html").read_text()).text
    table = compare_clusters([path], tmp_path / "out", draw=False)
    assert [text for text in table.attrs["warnings"] if "keep up" in text] == [f"fifo (seed 0), {found}"]
    out = io.StringIO()
    print_clusters(table, Console(file=out))
    assert "fifo *" in out.getvalue()
