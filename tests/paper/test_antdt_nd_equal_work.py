"""AntDT-ND where the paper is silent: how sizes return, and who is a straggler when batches differ."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from runtime.core.job import ComputeOrder
from strategies.antdt.antdt_nd import AntDTND
from strategies.antdt.detector import NEVER_MATURE
from strategies.basic.bsp import BSP
from strategies.protocol import Compute
from tests.support.harness import HeapRun, Seconds, make_job, samples_of

SHIPPED: dict[str, Any] = {
    "short_window_s": 6.0,
    "long_window_s": 12.0,
    "report_iters": 2,
    "min_records": 5,
    "decide_every_s": 3.0,
    "max_pending_s": 10.0,
    "cooldown_s": 12.0,
}
ITERATION_S, SHARE = 0.06, 32


class Cluster:
    """Iterations of 60 ms at even sizes, a part of it fixed; ``windows`` are (from, to, worker, factor, sleep)."""

    def __init__(self, base_share: float, windows: list[tuple[float, float, int, float, float]]) -> None:
        self.base_share, self.windows = base_share, windows
        self.run: HeapRun | None = None

    def seconds(self, worker: int, order: ComputeOrder) -> float:
        samples = samples_of(order)
        own_s = ITERATION_S * (self.base_share + (1 - self.base_share) * samples / SHARE)
        assert self.run is not None
        for start_s, end_s, who, factor, sleep_s in self.windows:
            if who == worker and start_s <= self.run.t < end_s and not order.incarnation:
                own_s = own_s * factor + sleep_s
        return own_s

    def play(self, strategy: Any, num_workers: int, max_time_s: float) -> HeapRun:
        job = make_job(
            num_workers=num_workers,
            global_batch_samples=SHARE * num_workers,
            num_samples=1_000_000,
            max_time_s=max_time_s,
            batches_per_shard=10,
        )
        self.run = HeapRun(strategy, job, self.seconds)
        return self.run.run()


ONE = [(5.0, 13.0, 1, 3.0, 0.0)]
SLEEP = [(5.0, 13.0, 1, 1.0, 0.12)]
SEVERAL = [(4.0, 10.0, 1, 3.5, 0.0), (6.0, 14.0, 2, 1.0, 0.15), (15.0, 24.0, 0, 3.0, 0.0)]


def late_round_s(run: HeapRun) -> float:
    """Median time of the last rounds."""
    times = [t for t, _, _ in run.applied]
    return median(after - before for before, after in pairwise(times[-60:]))


@pytest.mark.parametrize(
    ("base_share", "windows", "num_workers"),
    [
        (0.0, ONE, 4),
        *(pytest.param(*row, marks=pytest.mark.long) for row in ((0.8, ONE, 4), (0.4, SLEEP, 4), (0.2, SEVERAL, 4))),
        pytest.param(0.6, ONE, 64, marks=pytest.mark.long),
        pytest.param(0.4, SEVERAL, 16, marks=pytest.mark.long),
    ],
)
def test_after_the_last_transient_straggler_it_is_as_fast_as_bsp(
    base_share: float, windows: list[tuple[float, float, int, float, float]], num_workers: int
) -> None:
    """Beyond the paper: after the last transient straggler, rounds are within 2 % of BSP's and the job within 3 %,
    whatever part of an iteration is fixed."""
    end_s = 60.0 if num_workers < 64 else 36.0
    nd = Cluster(base_share, windows).play(AntDTND(**SHIPPED, max_restarts=0), num_workers, end_s)
    bsp = Cluster(base_share, windows).play(BSP(), num_workers, end_s)
    assert late_round_s(bsp) == pytest.approx(ITERATION_S)
    assert late_round_s(nd) <= 1.02 * ITERATION_S
    assert nd.updates >= bsp.updates / 1.03
    assert any(command.num_samples < SHARE for command in nd.commands if isinstance(command, Compute)), "it did adjust"


def kills(run: HeapRun) -> list[tuple[float, str]]:
    return [(t, node) for t, node, _ in run.restarts]


FOREVER = [(0.0, 1e9, 1, 2.5, 0.0)]


def test_a_persistent_straggler_is_detected_however_small_its_batch() -> None:
    """Departure from section VI-A, whose bare rule gives it a batch that it finishes in time, and keeps it."""
    nd = Cluster(1 / 3, FOREVER).play(AntDTND(**SHIPPED), 4, 60.0)
    bare = Cluster(1 / 3, FOREVER).play(AntDTND(**SHIPPED, judge="published", times="bpt"), 4, 60.0)
    assert kills(nd) == [(12.0, "worker:1")]
    assert kills(bare) == []
    assert late_round_s(nd) == pytest.approx(ITERATION_S)
    assert late_round_s(bare) > 1.2 * ITERATION_S


@pytest.mark.few(2)
@pytest.mark.parametrize("sleep_s", [1.5, 60.0])
@pytest.mark.parametrize("judge", ["at_equal_work", "published"])
def test_the_slowest_stragglers_are_detected_in_the_shortest_windows(sleep_s: float, judge: str) -> None:
    """Beyond the paper: windows of 6 and 12 s hold fewer than ten iterations of 1.5 s, and none of a minute."""
    run = Cluster(1 / 3, [(0.0, 1e9, 1, 1.0, sleep_s)]).play(AntDTND(**SHIPPED, judge=judge), 4, 60 + 6 * sleep_s)
    assert [node for _, node in kills(run)] == ["worker:1"]


def states(run: HeapRun) -> list[dict[str, Any]]:
    return [line.state for line in run.lines if line.state]


def test_a_job_without_any_decision_warns() -> None:
    """Beyond the paper: windows longer than the job decide nothing; with enough time there is no warning."""
    long = {**SHIPPED, "short_window_s": 300.0, "long_window_s": 600.0}
    calm: Seconds = lambda worker, order: ITERATION_S  # noqa: E731
    job = make_job(max_time_s=30.0)
    assert states(HeapRun(AntDTND(**long), job, calm).run())[-1]["warning"] == NEVER_MATURE
    assert "warning" not in states(HeapRun(AntDTND(**SHIPPED), job, calm).run())[-1]
