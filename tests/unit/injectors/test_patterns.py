"""Patterns: the definitions and figures of the papers, and that draws stay where they belong."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from injectors.patterns import Combined, IterationSlowdown, Persistent, Transient
from injectors.patterns.streams import stream
from injectors.plan import ClusterShape, Disturbance, Plan

CLUSTER = ClusterShape(num_workers=4, num_servers=2, base_iter_s=0.06)
PINNED = [0.1886143754025904, 0.19763812959989202]


def cluster_of(num_workers: int) -> ClusterShape:
    return ClusterShape(num_workers=num_workers, num_servers=1)


def by_target(plan: Plan) -> dict[str, list[Disturbance]]:
    found = defaultdict(list)
    for one in plan.disturbances:
        found[one.target].append(one)
    return found


def activity(plan: Plan, num_workers: int, period_s: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """[period, worker]: whether a worker straggles in a period."""
    active = np.zeros((round(plan.horizon_s / period_s), num_workers), dtype=bool)
    for one in plan.disturbances:
        active[int(one.start_s // period_s), int(one.target.partition(":")[2])] = True
    return active


@pytest.mark.few(1)
@pytest.mark.parametrize(("num_workers", "expected"), [(4, 0.760), (20, 0.999)])
def test_the_chance_of_at_least_one_active_worker(num_workers: int, expected: float) -> None:
    pattern = Transient()
    periods = 5_000
    plan = pattern.plan(cluster_of(num_workers), periods * pattern.period_s, seed=0)
    some = activity(plan, num_workers, pattern.period_s).any(axis=1).mean()
    assert some == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / periods) + 5e-4)


def test_windows_begin_with_the_period_or_anywhere_in_it() -> None:
    fields: dict[str, Any] = {"period_s": 6.0, "duration_s": 3.0, "probability": 0.5}
    for one in Transient(**fields).plan(CLUSTER, 6000.0, 0).disturbances:
        assert (one.start_s % 6.0, one.end_s - one.start_s, one.magnitude) == (0.0, 3.0, 1.2)
    plan = Transient(**fields, offset="uniform").plan(CLUSTER, 6000.0, 0)
    offsets = np.array([one.start_s % 6.0 for one in plan.disturbances])
    assert stats.kstest(offsets, stats.uniform(0, 3).cdf).pvalue > 0.001
    assert stats.kstest(offsets, stats.uniform(0, 3.5).cdf).pvalue < 0.001


def test_streams_differ_and_are_pinned() -> None:
    keys = list(product((0, 1, 2**32), ("a", "b"), ("worker:0", "server:0")))
    assert len({stream(*key).random() for key in keys}) == len(keys)
    # A published plan can be made again: these draws must never change
    assert stream(0, "transient", "worker:0").random(2).tolist() == PINNED


def test_what_straggles_rarely_also_straggles_when_probable() -> None:
    starts = [
        {(one.target, one.start_s) for one in Transient(probability=p).plan(CLUSTER, 1e6, 0).disturbances}
        for p in (0.1, 0.3, 0.6)
    ]
    assert starts[0] < starts[1] < starts[2]


def test_persistent_stragglers() -> None:
    plan = Persistent(targets=("worker:2", "server:*", "server:0"), start_s=3.0).plan(CLUSTER, 10.0, 0)
    rows = [(one.target, one.start_s, one.end_s, one.kind, one.magnitude) for one in plan.disturbances]
    assert rows == [(target, 3.0, 10.0, "delay", 4.0) for target in ("server:0", "server:1", "worker:2")]
    assert Persistent(start_s=11.0).plan(CLUSTER, 10.0, 0).disturbances == ()


def test_slowdowns_are_uniform_and_as_frequent_as_asked() -> None:
    plan = IterationSlowdown(slot_s=0.06, probability=0.1, max_slowdown_frac=4.0).plan(CLUSTER, 600.0, 0)
    assert len(plan.disturbances) == pytest.approx(4 * 10_000 * 0.1, rel=0.06)
    assert all(one.kind == "slowdown" for one in plan.disturbances)
    assert all(one.end_s - one.start_s == pytest.approx(0.06, abs=2e-6) for one in plan.disturbances)
    magnitudes = [one.magnitude for one in plan.disturbances]
    assert stats.kstest(magnitudes, stats.uniform(0, 4).cdf).pvalue > 0.001
    assert stats.kstest(magnitudes, stats.uniform(0, 3.7).cdf).pvalue < 0.001


def test_a_common_intensity_is_that_of_every_part_that_has_one() -> None:
    parts = {"a": Transient(intensity=0.5), "b": Persistent(intensity=0.5), "c": IterationSlowdown(slot_s=1.0)}
    assert Combined(patterns=parts, intensity=0.5).intensity == 0.5
    with pytest.raises(ValueError, match=r"intensity=0\.8: patterns\.a has intensity=0\.5; set only one for all"):
        Combined(patterns=parts, intensity=0.8)
    with pytest.raises(ValueError, match=r"intensity=0\.8: none of the patterns has one"):
        Combined(patterns={"c": parts["c"]}, intensity=0.8)
