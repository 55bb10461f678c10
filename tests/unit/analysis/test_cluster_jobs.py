"""What users of a cluster see, compared with arithmetic: queues by Lindley's recursion, integrals by brute force."""

from __future__ import annotations

import json
from itertools import pairwise
from math import inf, isnan, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures.cluster.gpu_lanes import drawn_hosts, gpu_lanes
from analysis.measures.cluster.hosts import busier_frac, host_use
from analysis.measures.cluster.jobs import gpus_used, in_system, job_times, makespan_s, running, use_over_time, window
from analysis.measures.cluster.steps import count_intervals
from analysis.measures.cluster.summary import summarise_cluster
from analysis.records.cluster import load_cluster
from tests.support.cluster_records import ClusterStory
from tests.unit.analysis.test_cluster_records import told, two_jobs

RATE = 1e9
"""Bytes per second of the links of written records, on the wire."""
PAYLOAD = RATE * 1448 / 1514
INTERVALS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 5)), max_size=8)


@given(INTERVALS, st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_steps_count_what_covers_each_time(found: list[tuple[int, int, int]], one: int, other: int) -> None:
    """Brute force: whole seconds, each looked at in its middle."""
    spans = [(min(a, b), max(a, b), weight) for a, b, weight in found]
    steps = count_intervals(*zip(*spans, strict=True)) if spans else count_intervals([], [])
    low, high = min(one, other), max(one, other)
    middles = [second + 0.5 for second in range(low, high)]
    values = [sum(weight for a, b, weight in spans if a <= t < b) for t in middles]
    assert steps.at(middles).tolist() == values
    assert steps.integral(low, high) == pytest.approx(sum(values))
    assert isnan(steps.mean(low, high)) if low == high else steps.mean(low, high) == pytest.approx(np.mean(values))
    endless = count_intervals([1.0, 2.0], [nan, 3.0])
    assert endless.at([0.0, 1.0, 2.5, 1e9]).tolist() == [0.0, 1.0, 2.0, 1.0]


def fifo_on_one_gpu(arrivals: list[float], services: list[float]) -> ClusterStory:
    """Jobs of one GPU that is served in the order of arrival, by Lindley's recursion."""
    story, free_s = ClusterStory(gpus=(1,)), 0.0
    for number, (t, service_s) in enumerate(zip(arrivals, services, strict=True)):
        job = f"j{number}"
        story.submit(t, job, gpus=1, duration_s=service_s)
        story.start(max(t, free_s), job, [0])
        free_s = max(t, free_s) + service_s
        story.end(free_s, job)
    return story


def test_waiting_in_a_queue_is_lindleys(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    arrivals, services = random.exponential(1.0, 60).cumsum(), random.exponential(0.9, 60)
    times = job_times(told(tmp_path, fifo_on_one_gpu(arrivals.tolist(), services.tolist())))
    waits = [0.0]
    for (t, service_s), (following, _) in pairwise(zip(arrivals, services, strict=True)):
        waits.append(max(0.0, waits[-1] + service_s - (following - t)))
    assert times["queue_s"].tolist() == pytest.approx(waits)
    assert times["first_wait_s"].tolist() == pytest.approx(waits)
    assert times["jct_s"].tolist() == pytest.approx(np.add(waits, services))
    assert times["slowdown"].tolist() == pytest.approx(np.add(waits, services) / services)
    assert times["stretch"].tolist() == pytest.approx([1.0] * 60)


def test_times_of_jobs_that_have_not_ended_are_those_until_the_end_of_the_record(tmp_path: Path) -> None:
    """At 7 s one has ended, one has waited since 2 s, and one has had its GPU since 4 s."""
    story = ClusterStory(gpus=(1,))
    for t, job in ((0.0, "ended"), (2.0, "waits"), (3.5, "runs")):
        story.submit(t, job, gpus=1)
    story.start(1.0, "ended", [0])
    story.end(3.0, "ended")
    story.start(4.0, "runs", [0])
    story.note(7.0, "Queued", job="waits")
    cluster = told(tmp_path, story, finished=False)
    times = job_times(cluster)
    expected = {
        "in_system_s": [3.0, 5.0, 3.5],
        "run_s": [2.0, 0.0, 3.0],
        "wait_s": [1.0, 5.0, 0.5],
        "jct_s": [3.0, inf, inf],
        "queue_s": [1.0, inf, 0.5],
        "first_wait_s": [1.0, inf, 0.5],
    }
    assert times[list(expected)].to_dict("list") == expected
    assert (window(times, cluster.end_s), makespan_s(times)) == ((0.0, 7.0), inf)
    story = ClusterStory(gpus=(1,))  # and a job that was cut off is not complete
    for job, status, reason in (("late", "done", "max_time_s=9 reached"), ("bad", "failed", "x"), ("good", "done", "")):
        story.submit(0.0, job, gpus=1, duration_s=1.0)
        story.start(0.0, job, [0])
        story.end(9.0, job, status, reason)
    assert job_times(told(tmp_path / "cut off", story))["jct_s"].tolist() == [inf, inf, 9.0]


def test_times_of_a_preempted_job_and_gpus_and_queue_over_time(tmp_path: Path) -> None:
    cluster = told(tmp_path, two_jobs())
    times = job_times(cluster)
    a, b = (row for _, row in times.iterrows())
    assert (a.jct_s, a.run_s, a.queue_s, a.first_wait_s, a.slowdown, a.stretch) == (14.0, 11.0, 3.0, 0.0, 1.4, 1.1)
    assert (b.jct_s, b.run_s, b.queue_s, b.first_wait_s, b.slowdown, b.stretch) == (4.0, 3.0, 1.0, 1.0, 4 / 3, 1.0)
    assert use_over_time(cluster, times).to_numpy().tolist() == [
        [1.0, 2.0, 1.0, 0.0, 0.0],  # a runs
        [4.0, 2.0, 1.0, 1.0, 4.0],  # b waits for 4 GPUs, a is leaving
        [5.0, 4.0, 1.0, 1.0, 2.0],  # b runs, a waits
        [8.0, 2.0, 1.0, 0.0, 0.0],  # a runs again
        [15.0, 0.0, 0.0, 0.0, 0.0],
    ]
    assert gpus_used(cluster).integral(0.0, 15.0) == 2 * 4 + 4 * 3 + 2 * 7
    assert in_system(times).integral(0.0, 15.0) == 14.0 + 4.0
    assert running(cluster).integral(0.0, 15.0) == 14.0
    assert (window(times, 15.0), makespan_s(times)) == ((1.0, 15.0), 14.0)


def test_the_use_of_hosts(tmp_path: Path) -> None:
    story = two_jobs()
    story.samples = [
        *((t, 0, used, 4.0, 0.95 * PAYLOAD, 1e8) for t, used in ((2.0, 2.0), (6.0, 2.0))),
        *((t, 1, used, 8.0, 1e8, 0.5 * PAYLOAD) for t, used in ((2.0, 0.0), (6.0, 2.0))),
    ]
    first, second = (row for _, row in host_use(told(tmp_path, story), 1.0, 15.0).iterrows())
    assert first.gpus_used == pytest.approx((2 * 4 + 2 * 3 + 1 * 7) / 14)
    assert second.gpu_use_frac == pytest.approx((0 * 4 + 2 * 3 + 1 * 7) / 14 / 2)
    assert (first.servers, second.servers) == (pytest.approx(7 / 14), pytest.approx(4 / 14))
    assert (first.link_frac, second.link_frac) == (pytest.approx(0.95), pytest.approx(0.5))
    assert (first.cpu_frac, first.link_above_90_frac, first.link_above_98_frac) == (0.5, 1.0, 0.0)
    assert (second.cpu_frac, second.cpu_above_98_frac) == (1.0, 1.0)


@pytest.mark.parametrize(("runtime", "full"), [("virtual", PAYLOAD), ("live", RATE)])
def test_a_link_that_carries_all_it_can_is_full_on_either_clock(tmp_path: Path, runtime: str, full: float) -> None:
    """Samples are payload on the virtual clock, and what links count live; the rate of a link includes headers."""
    story = two_jobs()
    story.samples = [(t, host, 2.0, 0.0, full, 0.0) for t in (2.0, 6.0) for host in (0, 1)]
    path = story.write(tmp_path / "run")
    about = json.loads((path / "meta.json").read_text()) | {"runtime": runtime}
    (path / "meta.json").write_text(json.dumps(about))
    cluster = load_cluster(path)
    use = host_use(cluster, 1.0, 15.0)
    assert use["link_frac"].tolist() == pytest.approx([1.0, 1.0])
    assert use["link_above_98_frac"].tolist() == [1.0, 1.0]
    assert busier_frac(cluster, cluster.hosts, "link").tolist() == pytest.approx([1.0] * 4)


def test_a_queue_is_longest_where_a_job_is_back_in_it(tmp_path: Path) -> None:
    """No job comes or ends when ``a`` has lost its GPU to ``b``, which has it a second later."""
    story = ClusterStory(gpus=(1,))
    story.submit(0.0, "a", gpus=1)
    story.start(0.0, "a", [0])
    story.submit(2.0, "b", gpus=1)
    story.note(2.0, "Queued", job="b")
    story.preempt(4.0, "a", gone_s=5.0)
    story.start(6.0, "b", [0])
    story.end(8.0, "b")
    story.start(8.0, "a", [0])
    story.end(9.0, "a")
    cluster = told(tmp_path, story)
    summary = summarise_cluster(cluster, job_times(cluster), None)
    assert summary["queue_max"] == 2.0
    assert summary["queue_mean"] == pytest.approx((3 * 1 + 1 * 2 + 2 * 1) / 9)


def test_no_two_workers_share_a_lane(tmp_path: Path) -> None:
    """Each on the lowest GPU that is free; brute force over all pairs."""
    random = np.random.default_rng(5)
    story = ClusterStory(gpus=(3, 3))
    free = {0: [0.0] * 3, 1: [0.0] * 3}
    for number in range(40):
        host = int(random.integers(2))
        gpu = int(np.argmin(free[host]))
        t = free[host][gpu] + float(random.exponential(1.0))
        story.submit(t, f"j{number}", gpus=1)
        story.start(t, f"j{number}", [host])
        free[host][gpu] = t + float(random.exponential(5.0))
        story.end(free[host][gpu], f"j{number}")
    lanes = gpu_lanes(told(tmp_path, story))
    assert (len(lanes), lanes["gpu"].max()) == (40, 2)
    for _, rows in lanes.groupby(["host", "gpu"]):
        ordered = rows.sort_values("start_s")
        assert all(end <= start for end, start in zip(ordered["end_s"], ordered["start_s"][1:], strict=False))
    gpus = load_cluster(ClusterStory(gpus=[8] * 20 + [0]).write(tmp_path / "many", finished=False)).machines["gpus"]
    assert [drawn_hosts(gpus, most=most) for most in (4, 32)] == [[0], [0, 5, 10, 15]]
    assert len(drawn_hosts(gpus, most=160)) == 20
