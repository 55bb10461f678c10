"""Patterns: the definitions and figures of the papers, and that draws stay where they belong."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from injectors.patterns import Combined, IterationSlowdown, NoStragglers, Pattern, Persistent, Transient
from injectors.patterns import streams as streams_module
from injectors.patterns.streams import stream
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan
from runtime.config.instantiate import explain

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


# ---- transient: AntDT section VII-A4 ---------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(("num_workers", "expected"), [(4, 0.760), (8, 0.942), (20, 0.999)])
def test_the_chance_of_at_least_one_active_worker(num_workers: int, expected: float) -> None:
    pattern = Transient()
    periods = 20_000
    plan = pattern.plan(cluster_of(num_workers), periods * pattern.period_s, seed=0)
    some = activity(plan, num_workers, pattern.period_s).any(axis=1).mean()
    assert some == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / periods) + 5e-4)


def test_the_mean_extra_time_of_a_worker_iteration() -> None:
    """Of the paper's values at intensity 0.8: 1.5 x 0.8 x 0.5 x 0.3 = 0.18 s."""
    horizon_s = 10_000 * Transient().period_s
    plan = Transient().plan(cluster_of(4), horizon_s, seed=1)
    extra = sum((one.end_s - one.start_s) * one.magnitude for one in plan.disturbances) / (4 * horizon_s)
    assert extra == pytest.approx(0.18, abs=0.004)


def test_windows_begin_with_the_period_or_anywhere_in_it() -> None:
    fields: dict[str, Any] = {"period_s": 6.0, "duration_s": 3.0, "probability": 0.5}
    for one in Transient(**fields).plan(CLUSTER, 6000.0, 0).disturbances:
        assert (one.start_s % 6.0, one.end_s - one.start_s, one.magnitude) == (0.0, 3.0, 1.2)
    plan = Transient(**fields, offset="uniform").plan(CLUSTER, 6000.0, 0)
    offsets = np.array([one.start_s % 6.0 for one in plan.disturbances])
    assert stats.kstest(offsets, stats.uniform(0, 3).cdf).pvalue > 0.001
    assert stats.kstest(offsets, stats.uniform(0, 3.5).cdf).pvalue < 0.001


def test_windows_end_with_the_horizon() -> None:
    plan = Transient(period_s=6.0, duration_s=5.0, probability=1.0).plan(CLUSTER, 8.0, 0)
    assert {(one.start_s, one.end_s) for one in plan.disturbances} == {(0.0, 5.0), (6.0, 8.0)}


def test_the_delay_in_iterations() -> None:
    plan = Transient(sleep_s=None, sleep_iters=5.0, probability=1.0).plan(CLUSTER, 1.0, 0)
    assert {one.magnitude for one in plan.disturbances} == {0.24}
    with pytest.raises(ValueError, match=r"sleep_iters=5\.0: .*set sleep_iters to null and sleep_s to seconds"):
        Transient(sleep_s=None, sleep_iters=5.0).plan(cluster_of(4), 1.0, 0)


# ---- random streams --------------------------------------------------------------------------------------------------

RANDOM = [Transient(period_s=6.0, duration_s=3.0, offset="uniform"), IterationSlowdown(slot_s=0.06)]


def check_streams(pattern: Pattern, cluster_of: Callable[[int], ClusterShape] = cluster_of) -> None:
    """Another worker does not shift the others' draws, and no two workers draw alike."""
    few, many = (by_target(pattern.plan(cluster_of(n), 600.0, 3)) for n in (4, 9))
    assert len(many) == 9
    assert all(few[target] == many[target] for target in few)
    windows = {tuple((one.start_s, one.magnitude) for one in own) for own in many.values()}
    assert len(windows) == 9


@pytest.mark.parametrize("pattern", RANDOM, ids=lambda pattern: pattern.name)
def test_every_target_has_its_own_stream(pattern: Pattern) -> None:
    check_streams(pattern)


@pytest.mark.parametrize("key", [lambda seed, name, target: (seed, name, "worker"), None], ids=["shared", "sequential"])
def test_wrong_streams_are_caught(key: Callable[..., tuple[Any, ...]] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    one_for_all = np.random.default_rng(0)

    def wrong(seed: int, name: str, target: str) -> np.random.Generator:
        return one_for_all if key is None else streams_module.stream(*key(seed, name, target))

    monkeypatch.setattr("injectors.patterns.periods.stream", wrong)
    with pytest.raises(AssertionError):
        check_streams(RANDOM[0])


def test_streams_differ_by_seed_name_and_target() -> None:
    keys = list(product((0, 1, 2**32), ("a", "b"), ("worker:0", "server:0")))
    assert len({stream(*key).random() for key in keys}) == len(keys)


def test_streams_are_pinned() -> None:
    """A published plan can be made again: these draws must never change."""
    assert stream(0, "transient", "worker:0").random(2).tolist() == PINNED


def test_workers_are_independent() -> None:
    active = activity(Transient().plan(cluster_of(8), 4000 * 1800.0, 5), 8, 1800.0).astype(float)
    correlation = np.corrcoef(active.T)[~np.eye(8, dtype=bool)]
    assert np.abs(correlation).max() < 5 / math.sqrt(4000)


@pytest.mark.parametrize("pattern", RANDOM, ids=lambda pattern: pattern.name)
def test_a_longer_horizon_continues_a_shorter_one(pattern: Pattern) -> None:
    short, long = (pattern.plan(CLUSTER, horizon_s, 3) for horizon_s in (60.0, 120.0))
    assert short.disturbances == build_plan("p", 3, 60.0, long.disturbances).disturbances


def test_what_straggles_rarely_also_straggles_when_probable() -> None:
    starts = [
        {(one.target, one.start_s) for one in Transient(probability=p).plan(CLUSTER, 1e6, 0).disturbances}
        for p in (0.1, 0.3, 0.6)
    ]
    assert starts[0] < starts[1] < starts[2]


def test_a_part_of_a_combination_draws_what_it_draws_alone() -> None:
    parts = {"a": RANDOM[0], "b": RANDOM[1], "c": Persistent()}
    plan = Combined(patterns=parts).plan(CLUSTER, 60.0, 7)
    alone = [one for part in parts.values() for one in part.plan(CLUSTER, 60.0, 7).disturbances]
    assert plan == build_plan("combined", 7, 60.0, alone)


# ---- the others ------------------------------------------------------------------------------------------------------


def test_no_stragglers() -> None:
    assert NoStragglers().plan(CLUSTER, 10.0, 0).disturbances == ()


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


def test_neighbouring_slots_do_not_overlap() -> None:
    plan = IterationSlowdown(slot_s=0.07, probability=1.0).plan(cluster_of(1), 60.0, 0)
    windows = plan.disturbances
    assert all(first.end_s == second.start_s for first, second in pairwise(windows))


MISREAD = ("a b", "$HOME", "a;b", "a&b", "a|b", "a>b", "*", "~", "-a", ".a", "a/b", "'a'", "`a`", "a=b", "é")
"""By a shell, or by whoever makes a file of that name."""

# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Transient(period_s=0), "period_s=0: must be at least 0.001"),
        (lambda: Transient(period_s=math.nan), "period_s=nan: must be a finite number"),
        (lambda: Transient(duration_s=2000.0), r"duration_s=2000.0: must be at most period_s (1800.0)"),
        (lambda: Transient(duration_s=0), "duration_s=0: must be more than 0"),
        (lambda: Transient(probability=1.1), "probability=1.1: must be at least 0 and at most 1"),
        (lambda: Transient(probability=True), "probability=True: must be a finite number"),
        (lambda: Transient(intensity=-0.1), "intensity=-0.1: must be at least 0 and at most 1"),
        (lambda: Transient(sleep_iters=1.0), "sleep_s=1.5: only one of sleep_s and sleep_iters may be set"),
        (lambda: Transient(sleep_s=None), "sleep_s=null: one of sleep_s and sleep_iters must be set"),
        (lambda: Transient(sleep_s=-1.0), "sleep_s=-1.0: must be at least 0"),
        (lambda: Transient(offset="end"), "offset=end: must be one of start, uniform"),  # type: ignore[arg-type]
        (lambda: Transient(name=""), "name=: must be"),
        *[(lambda name=name: Transient(name=name), f"name={name}: must be letters") for name in MISREAD],
        (lambda: Transient(name="a\nb"), r"name='a\nb': must be letters"),
        (lambda: Transient(name=1), "name=1: must be letters"),  # type: ignore[arg-type]
        (lambda: Persistent(targets=()), "targets=(): must be a list"),
        (lambda: Persistent(targets="worker:0"), "targets=worker:0: must be a list"),  # type: ignore[arg-type]
        (lambda: Persistent(targets=("node:1",)), "targets=node:1: must be worker:<id>"),
        (lambda: Persistent(targets=("worker:01",)), "targets=worker:01: must be"),
        (lambda: Persistent(targets=("worker",)), "targets=worker: must be"),
        (
            lambda: Persistent(targets=("host:0",)),
            "targets=host:0: must be worker:<id>, server:<id>, or * for the id; del",
        ),
        (lambda: Persistent(targets=("worker:0;ls",)), "targets=worker:0;ls: must be"),
        (lambda: Persistent(targets=("worker:0\n",)), r"targets='worker:0\n': must be"),
        (lambda: Persistent(start_s=-1.0), "start_s=-1.0: must be at least 0"),
        (lambda: IterationSlowdown(slot_s=0.0), "slot_s=0.0: must be at least 0.001"),
        (lambda: IterationSlowdown(slot_s=1.0, max_slowdown_frac=-1), "max_slowdown_frac=-1: must be at least 0"),
        (lambda: Combined(patterns={}), "patterns: must name at least one"),
        (lambda: Combined(patterns={"a": 1}), "patterns: a is no pattern"),  # type: ignore[dict-item]
        (lambda: Combined(patterns={"a": Combined(patterns={"b": NoStragglers()})}), "patterns: a is no pattern"),
        (lambda: Combined(patterns={"a": Transient(), "b": Transient()}), "have name=transient and would draw alike"),
    ],
)
def test_fields_are_checked(make: Callable[[], Pattern], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "horizon_s", "message"),
    [
        (Persistent(targets=("worker:4",)), 1.0, "targets=worker:4: there is no such target; valid are worker:0 to "),
        (Combined(patterns={"x": Persistent(targets=("server:7",))}), 1.0, "x.targets=server:7"),
        (IterationSlowdown(slot_s=0.01), 604_800.0, "slot_s=0.01: too short for 604800 s"),
        (Transient(period_s=0.001, duration_s=0.001, probability=0.0), 1e15, "period_s=0.001: too short"),
    ],
)
def test_what_does_not_fit_the_run_is_refused(pattern: Pattern, horizon_s: float, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        pattern.plan(CLUSTER, horizon_s, 0)


@dataclass(frozen=True, kw_only=True)
class Refusing(Pattern):
    """A pattern of one's own, for which no run is the right one."""

    says: str
    rows: int = 3
    name: str = "refusing"

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        raise ValueError(self.says)


@pytest.mark.parametrize(
    ("says", "whole"),
    [
        ("rows=3: too many", "patterns.rack-1.rows=3: too many"),
        ("rows[0]=3: too many", "patterns.rack-1.rows[0]=3: too many"),
        ("rows: too many", "patterns.rack-1.rows: too many"),
        ("there are too many", "patterns.rack-1: there are too many"),
        ("worker:0 has too many", "patterns.rack-1: worker:0 has too many"),
    ],
)
def test_what_a_part_refuses_is_said_under_its_name(says: str, whole: str) -> None:
    with pytest.raises(ValueError, match=re.escape(whole)) as caught:
        Combined(patterns={"rack-1": Refusing(says=says)}).plan(CLUSTER, 1.0, 0)
    assert str(explain(caught.value, {"patterns": {}}, "straggler")) == f"straggler.{whole}"


def test_a_common_intensity_is_that_of_every_part_that_has_one() -> None:
    parts = {"a": Transient(intensity=0.5), "b": Persistent(intensity=0.5), "c": IterationSlowdown(slot_s=1.0)}
    assert Combined(patterns=parts, intensity=0.5).intensity == 0.5
    with pytest.raises(ValueError, match=r"intensity=0\.8: patterns\.a has intensity=0\.5; set only one for all"):
        Combined(patterns=parts, intensity=0.8)
    with pytest.raises(ValueError, match=r"intensity=0\.8: none of the patterns has one"):
        Combined(patterns={"c": parts["c"]}, intensity=0.8)
