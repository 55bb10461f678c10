"""Stragglers of a cluster's jobs: STAR's definitions by hand and by brute force; causes, neighbours by construction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isnan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.measures.cluster.deviations import PARTS, compare_workers, is_slow, job_stragglers
from analysis.measures.cluster.episodes import episodes
from analysis.measures.cluster.histogram import EDGES, counts, tabulate
from analysis.measures.cluster.occupancy import Occupancy
from analysis.measures.cluster.straggling import straggler_summary, straggling
from analysis.records.cluster import load_cluster
from analysis.records.job_rows import read_job_rows
from analysis.records.load import RecordError, load_run
from tests.support.cluster_records import ClusterStory
from tests.support.records import bsp_story, churn_story
from tests.unit.analysis.test_cluster_records import told

USUAL = {"data_s": 0.1, "compute_s": 0.5, "pull_s": 0.3, "recv_s": 0.2, "send_s": 0.1}
"""T = 1 s: 0.6 on the processor, 0.3 on the link, 0.1 waiting for servers."""
SLOWER = {
    "processor": {"data_s": 0.6},
    "injected": {"compute_s": 1.0, "injected_s": 0.5},
    "link": {"send_s": 0.6},
    "servers": {"pull_s": 0.8},
}
"""T = 1.5 s."""


def iterations(job: Sequence[Sequence[dict[str, float]]]) -> pd.DataFrame:
    """Rows of a job by iteration and worker: what differs from ``USUAL``."""
    story = ClusterStory()
    for number, workers in enumerate(job):
        story.iterate("a", number, [{**USUAL, **each} for each in workers])
    return pd.DataFrame(story.rows["a"])


def spans_of(workers: Sequence[int], servers: Sequence[int] = (), start_s: float = 0.0) -> pd.DataFrame:
    row = ("a", start_s, 1e9, "ended", tuple(workers), tuple(servers))
    return pd.DataFrame([row], columns=["job", "start_s", "end_s", "ended", "workers", "servers"])


def test_deviations_by_hand() -> None:
    """STAR, section II: d_i = (T_i - min T) / min T, a straggler above 20 %."""
    rows = compare_workers(iterations([[{}, {"send_s": 0.3}, {"send_s": 0.31}], [{}, {}, {}]]))
    assert rows["time_s"].tolist() == pytest.approx([1.0, 1.2, 1.21, 1.0, 1.0, 1.0])
    assert rows["deviation_frac"].tolist() == pytest.approx([0.0, 0.2, 0.21, 0.0, 0.0, 0.0])
    slow = is_slow(rows.assign(deviation_frac=rows["deviation_frac"].round(9)))
    assert slow.tolist() == [False, False, True, False, False, False]
    found = job_stragglers(rows)
    assert (found["workers"], found["compared"], found["straggler_frac"]) == (3, 2, 0.5)
    mean_s = 3.41 / 3 + 1.0
    assert found["delay_frac"] == pytest.approx(2.21 / mean_s - 1.0)
    assert found["waste_frac"] == pytest.approx(1.0 - mean_s / 2.21)
    assert found["communication_frac"] == pytest.approx((0.4 + 0.6 + 0.61 + 3 * 0.4) / 6.41)
    assert (found["data_straggler_frac"], found["compute_straggler_frac"]) == (0.0, 0.0)
    assert found["communication_straggler_frac"] == 0.5
    assert found["fall_frac"] == 0.0
    assert rows[list(PARTS)].sum(axis="columns").tolist() == pytest.approx(rows["time_s"].tolist())


def test_workers_are_compared_at_equal_work() -> None:
    """Batches of 12 and 4: the same speed, then a worker at half of it; a sleep is no work."""
    more = {"samples": 12, "assigned_samples": 12, "data_s": 0.15, "compute_s": 0.75}
    less = {"samples": 4, "assigned_samples": 4, "data_s": 0.05, "compute_s": 0.25}
    slept = {**less, "compute_s": 0.75, "injected_s": 0.5}
    rows = compare_workers(iterations([[more, less], [more, {**less, "data_s": 0.1, "compute_s": 0.5}], [more, slept]]))
    assert rows["time_s"].tolist() == pytest.approx([1.0, 1.0, 1.0, 1.6, 1.0, 1.5])


def test_a_ring_is_compared_without_its_sum_and_without_the_transfers_of_who_has_left_it(tmp_path: Path) -> None:
    story = ClusterStory(gpus=(8,))
    for job in ("ring", "servers"):
        story.submit(0.0, job, gpus=2)
        story.start(0.0, job, [0, 0])
        story.iterate(job, 0, [{**USUAL, "send_s": 0.0}, USUAL | SLOWER["link"]])
        story.end(2.0, job)
    cluster = told(tmp_path, story)
    for job, topology in (("ring", "allreduce"), ("servers", "ps")):
        (cluster.folders[job] / "meta.json").write_text(json.dumps({"schema": 1, "job": {"topology": topology}}))
    found = straggling(cluster)
    assert found is not None
    assert found.jobs.set_index("job")["straggler_frac"].to_dict() == {"ring": 0.0, "servers": 1.0}


def test_deviations_at_their_limits() -> None:
    """Both are measured, by clocks of their own: waiting for servers is never negative."""
    rows = compare_workers(iterations([[{}, {"recv_s": 0.4}]]))
    assert rows["servers_s"].tolist() == pytest.approx([0.1, 0.0])
    assert rows["link_s"].tolist() == pytest.approx([0.3, 0.4])
    even = dict.fromkeys(("data_s", "compute_s", "pull_s", "send_s"), 0.25)
    rows = compare_workers(iterations([[even, {**even, "compute_s": 0.375}, {**even, "send_s": 0.375}]]))
    assert job_stragglers(rows)["communication_half_frac"] == pytest.approx(2 / 3)
    nothing = dict.fromkeys(USUAL, 0.0)
    assert len(compare_workers(iterations([[nothing, {}]]))) == 0
    assert isnan(job_stragglers(compare_workers(iterations([[{"data_s": 0.0}, {}]])))["data_straggler_frac"])
    found = job_stragglers(
        compare_workers(iterations([[{}, {}], [{"data_s": 0.5}, {}], [{}, {}], [{}, {"data_s": 0.25}]]))
    )
    assert (found["rise_frac"], found["fall_frac"]) == (pytest.approx(1 / 6), pytest.approx(1 / 6))


def random_rows(seed: int, workers: int = 4, number: int = 30) -> pd.DataFrame:
    """Some batches are partial, some workers skip iterations, some iterations are repeated."""
    random = np.random.default_rng(seed)
    rows = []
    for iteration in range(number):
        for worker in range(workers):
            if random.random() < 0.1:
                continue
            for _ in range(1 + int(random.random() < 0.1)):
                durations = {name: float(random.lognormal(-2.0, 0.4)) for name in USUAL}
                durations["pull_s"] += durations["recv_s"]
                partial = random.random() < 0.1
                rows.append({"worker": worker, "iteration": iteration, "samples": 8 - partial, "assigned_samples": 8,
                             "t": iteration + random.random(), "injected_s": 0.0, **durations})  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize("seed", range(3))
def test_deviations_by_brute_force(seed: int) -> None:
    rows = random_rows(seed)
    last: dict[tuple[int, int], tuple[float, float]] = {}
    for row in rows[rows["samples"] == 8].itertuples():
        time_s = row.data_s + row.pull_s + row.compute_s + row.send_s
        key = (row.iteration, row.worker)
        if key not in last or row.t > last[key][0]:
            last[key] = (row.t, time_s)
    expected = {}
    for iteration in range(30):
        times = {worker: time_s for (number, worker), (_, time_s) in last.items() if number == iteration}
        if len(times) > 1:
            expected |= {(iteration, worker): time_s / min(times.values()) - 1.0 for worker, time_s in times.items()}
    found = compare_workers(rows)
    got = dict(zip(zip(found["iteration"], found["worker"], strict=True), found["deviation_frac"], strict=True))
    assert got == pytest.approx(expected)
    slow = {iteration for (iteration, _), deviation in expected.items() if deviation > 0.2}
    assert job_stragglers(found)["straggler_frac"] == len(slow) / len({iteration for iteration, _ in expected})


CALM: list[list[dict[str, float]]] = [[{}, {}]]


def found_in(job: Sequence[Sequence[dict[str, float]]], spans: pd.DataFrame, zero_s: float = 0.0) -> pd.DataFrame:
    return episodes(compare_workers(iterations(job)), zero_s, spans)


@pytest.mark.parametrize("cause", SLOWER)
def test_what_was_stretched_is_the_cause(cause: str) -> None:
    found = found_in([*CALM * 6, *[[{}, SLOWER[cause]]] * 2, *CALM * 6], spans_of([3, 5]), 100.0)
    (row,) = (row for _, row in found.iterrows())
    assert (row.cause, row.worker, row.host, row.iterations, row.reference) == (cause, 1, 5, 2, "own")
    assert (row.start_s, row.end_s) == (pytest.approx(106.0), pytest.approx(109.0))
    assert (row.lost_s, row.deviation_frac) == (pytest.approx(1.0), pytest.approx(0.5))
    excess = {part: row[f"excess_{part}"] for part in PARTS}
    assert excess == pytest.approx({**dict.fromkeys(PARTS, 0.0), f"{cause}_s": 0.5})


def test_who_always_straggles_is_compared_with_others_and_a_reference_is_of_calm_iterations_only() -> None:
    found = found_in([[{}, SLOWER["link"], {}]] * 8, spans_of([0, 1, 2]))
    (row,) = (row for _, row in found.iterrows())
    assert (row.iterations, row.reference, row.cause, row.host) == (8, "job", "link", 1)
    assert row.excess_link_s == pytest.approx(0.5)
    found = found_in([*CALM * 5, *[[{}, SLOWER["link"]]] * 8], spans_of([0, 1]))
    assert found[["iterations", "reference", "cause"]].to_numpy().tolist() == [[8, "own", "link"]]
    found = found_in([*CALM * 6, [{"compute_s": 0.2}, {}]], spans_of([0, 0]))
    assert found[["worker", "cause"]].to_numpy().tolist() == [[1, "peers"]], "falls of others' times (STAR, III-A)"


@pytest.mark.parametrize("seed", range(3))
def test_episodes_by_brute_force(seed: int) -> None:
    """Consecutive comparable iterations of a worker, found by a walk."""
    rows = compare_workers(random_rows(seed, number=80))
    expected = []
    for worker, mine in rows.groupby("worker"):
        length = 0
        for slow in [*is_slow(mine), False]:
            length += slow
            if length and not slow:
                expected.append((worker, length))
                length = 0
    found = episodes(rows, 0.0, spans_of([0] * 4))
    assert list(zip(found["worker"], found["iterations"], strict=True)) == expected
    assert found["lost_s"].sum() == pytest.approx((rows["time_s"] - rows["fastest_s"])[is_slow(rows)].sum())


@pytest.mark.parametrize(("calm", "reference"), [(4, "job"), (5, "own")])
def test_five_calm_iterations_are_a_reference_of_its_own(calm: int, reference: str) -> None:
    """The worker's link is always slow by 0.1 s, which is no straggling; the job's median knows nothing of it."""
    usual = {"send_s": 0.2}
    found = found_in([*[[{}, {}, usual]] * calm, [{}, {}, {"send_s": 0.6}]], spans_of([0] * 3))
    assert found["reference"].tolist() == [reference]
    assert found["excess_link_s"].tolist() == pytest.approx([0.4 if reference == "own" else 0.5])


def test_an_iteration_that_begins_with_its_job_on_a_host_is_on_that_host_and_an_episode_ends_there() -> None:
    rows = compare_workers(iterations([[{}, {}], [{}, SLOWER["link"]]]))
    begun_s = float((rows["t"] - rows["time_s"])[rows["iteration"] == 1].iloc[1])
    spans = pd.concat([spans_of([0, 1]), spans_of([2, 3], start_s=begun_s)], ignore_index=True)
    assert episodes(rows, 0.0, spans)["host"].tolist() == [3]
    spans = pd.concat([spans_of([0, 1]).assign(end_s=3.4), spans_of([2, 3], start_s=3.5)], ignore_index=True)
    found = found_in([*CALM * 2, *[[{}, SLOWER["link"]]] * 2], spans)
    assert found[["host", "iterations"]].to_numpy().tolist() == [[1, 1], [3, 1]]


def test_neighbours_by_brute_force() -> None:
    random = np.random.default_rng(7)
    rows = []
    for number in range(40):
        start_s = float(random.integers(0, 50))
        hosts, servers = random.integers(0, 4, (2, 2)).tolist()
        rows.append(
            (f"j{number}", start_s, start_s + float(random.integers(0, 9)), "ended", tuple(hosts), tuple(servers))
        )
    spans = pd.DataFrame(rows, columns=["job", "start_s", "end_s", "ended", "workers", "servers"])
    occupancy = Occupancy(spans)
    for _ in range(200):
        host, low = int(random.integers(0, 5)), float(random.integers(-2, 120)) / 2
        high = low + float(random.integers(1, 20)) / 4
        present = {job for job, a, b, _, w, s in rows if host in (*w, *s) and a < high and b > low and b > a}
        assert occupancy.between(host, low, high) == present
        servers_there = sum(s.count(host) for _, a, b, _, _, s in rows if a <= low < b)
        assert occupancy.servers_at(host, [low]).tolist() == [servers_there]


def test_a_job_that_is_started_again_where_it_was_is_still_there() -> None:
    spans = pd.concat([spans_of([0], [0]).assign(end_s=4.0), spans_of([0], [0], start_s=4.0)], ignore_index=True)
    occupancy = Occupancy(spans)
    assert occupancy.between(0, 5.0, 6.0) == occupancy.between(0, 3.0, 4.0) == {"a"}
    assert occupancy.servers_at(0, [3.0, 4.0, 5.0]).tolist() == [1, 1, 1]


def shared_hosts(**how: bool) -> ClusterStory:
    """``a`` straggles on host 1 in iterations 6 and 7, from 16 to 19 s: ``b`` is there, ``c`` on its server's host."""
    story = ClusterStory(gpus=(1, 2, 2, 2))
    for job in "bcd":
        story.submit(0.0, job, gpus=1)
    story.submit(10.0, "a", gpus=2, servers=1)
    story.start(10.0, "a", [0, 1], [2])
    story.start(12.0, "c", [2])
    story.start(15.0, "b", [1], [1])
    story.end(19.5, "b")
    story.start(20.0, "d", [1])
    for t, job in ((22.0, "c"), (24.0, "a"), (25.0, "d")):
        story.end(t, job)
    for number in range(12):
        slow = SLOWER["link"] if number in (6, 7) else {}
        story.iterate("a", number, [USUAL, {**USUAL, **slow}])
    story.iterate("b", 0, [USUAL])
    return story


@pytest.mark.parametrize("events", [False, True])
def test_an_episode_has_its_cause_and_its_neighbours(events: bool, tmp_path: Path) -> None:
    found = straggling(told(tmp_path, shared_hosts(), events=events))
    (row,) = (row for _, row in found.episodes.iterrows())
    assert (row.job, row.worker, row.host, row.cause, row.iterations) == ("a", 1, 1, "link", 2)
    assert (row.start_s, row.end_s) == (pytest.approx(16.0), pytest.approx(19.0))
    assert (row.neighbours, row.server_neighbours, row.host_servers) == ("b", "c", 1)
    assert found.unread == ("job b: no iteration that two workers have completed",)
    by_kind = found.deviations.groupby("kind")["count"].sum()
    assert by_kind.to_dict() == {"iteration": 12, "worker": 24, "servers=0": 20, "servers=1": 4}
    summary = straggler_summary(found)
    assert (summary["jobs"], summary["iterations"], summary["episodes"]) == (1, 12, 1)
    assert summary["iterations_with_straggler_frac"] == pytest.approx(2 / 12)
    assert (summary["jobs_any_frac"], summary["jobs_above_half_frac"]) == (1.0, 0.0)
    assert (summary["communication_any_frac"], summary["data_any_frac"]) == (1.0, 0.0)
    assert summary["delay_frac"] == pytest.approx(13.0 / (10 + 2 * 1.25) - 1.0)
    assert (summary["causes"], summary["with_neighbours_frac"]) == ({"link": 1}, 1.0)
    assert summary["episode_s"]["median"] == pytest.approx(3.0)


def test_waste_is_weighted_by_workers_and_delay_is_not(tmp_path: Path) -> None:
    """Two jobs of one iteration: 2 workers at 1.0 and 1.5 s, 3 workers at 1.0 s."""
    story = ClusterStory(gpus=(8,))
    for job, gpus, times in (("a", 2, [{}, SLOWER["link"]]), ("b", 3, [{}] * 3)):
        story.submit(0.0, job, gpus=gpus)
        story.start(0.0, job, [0] * gpus)
        story.iterate(job, 0, [{**USUAL, **each} for each in times])
        story.end(2.0, job)
    found = straggling(told(tmp_path, story))
    assert found is not None
    summary = straggler_summary(found)
    assert summary["delay_frac"] == pytest.approx(2.5 / 2.25 - 1.0)
    assert summary["waste_frac"] == pytest.approx(1.0 - (2 * 1.25 + 3) / (2 * 1.5 + 3))


def test_records_of_jobs_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    story = shared_hosts()
    path = story.write(tmp_path / "run", events=True)
    log = path / "jobs" / "a" / "events.jsonl"
    log.write_text(log.read_text().replace('"worker": 1', '"worker": "x"', 1))
    found = straggling(load_cluster(path))
    assert not len(found.jobs)
    assert not len(found.episodes)
    assert any("jobs/a/events.jsonl:2" in reason for reason in found.unread)
    assert straggler_summary(found)["episodes"] == 0


def test_rows_are_those_of_the_tables(tmp_path: Path) -> None:
    """The narrow reader agrees with the tables of a run, losses and repeated iterations included."""
    path = churn_story().write(tmp_path / "run")
    expected = load_run(path).tables.iterations
    got = read_job_rows(path)
    assert got.pop("recv_s").isna().all(), "that record lacks it: its pull counts as the link"
    pd.testing.assert_frame_equal(got, expected[list(got.columns)], check_dtype=False)
    assert compare_workers(read_job_rows(path))["servers_s"].eq(0.0).all()


def test_a_torn_line_and_lost_rows(tmp_path: Path) -> None:
    path = bsp_story().write(tmp_path / "run")
    number = len(read_job_rows(path))
    log = path / "events.jsonl"
    text = log.read_text()
    line = next(line for line in text.splitlines() if '"Arrived"' in line)
    log.write_text(text + line[:-20])
    assert len(read_job_rows(path)) == number
    log.write_text(text + line)
    assert len(read_job_rows(path)) == number + 1
    (path / "iterations.parquet").write_bytes(b"PAR1 and no end")
    assert len(read_job_rows(path)) == 0
    assert len(read_job_rows(tmp_path / "nobody")) == 0
    (path / "iterations.parquet").unlink()
    log.write_text(line[:-20] + "\n" + text)
    with pytest.raises(RecordError, match=r"events\.jsonl:1:"):
        read_job_rows(path)


def test_bins_keep_the_limit_and_add_up() -> None:
    values = np.array([0.0, 0.0, 1e-4, 0.2, np.nextafter(0.2, 1.0), 5.0, 1e6])
    both = counts(values) + counts(values)
    assert both.sum() == 14
    assert both[EDGES <= 0.2].sum() == 8
    table = tabulate({"x": both})
    assert table["count"].tolist() == [4, 2, 2, 2, 2, 2]
    assert table["up_to"].iloc[0] == 0.0
    assert np.isinf(table["up_to"].iloc[-1])
