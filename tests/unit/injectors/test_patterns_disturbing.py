"""Patterns of real disturbances: throttling, on and off, kills and pauses, delays with a heavy tail."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from scipy import stats

from injectors.patterns import (
    Combined,
    IterationSlowdown,
    Markov,
    OnOff,
    Pattern,
    Pauses,
    Persistent,
    Poisson,
    PowerLaw,
    SequenceLengths,
    SlowLoader,
    Throttle,
    Transient,
    TransientThrottle,
)
from injectors.patterns import streams as streams_module
from injectors.plan import ClusterShape, Kind, Plan, build_plan, validate_plan
from tests.unit.injectors.test_patterns import by_target

HOSTS = ClusterShape(num_workers=4, num_servers=2, base_iter_s=0.06, num_hosts=4)


def cluster_of(num_workers: int, num_hosts: int = 0) -> ClusterShape:
    return ClusterShape(num_workers=num_workers, num_servers=2, base_iter_s=0.06, num_hosts=num_hosts)


def rows(plan: Plan) -> list[tuple[str, float, float, str, float]]:
    return [(one.target, one.start_s, one.end_s, one.kind, one.magnitude) for one in plan.disturbances]


RANDOM: list[Pattern] = [
    Transient(period_s=6.0, duration_s=3.0, offset="uniform"),
    IterationSlowdown(slot_s=0.06),
    Markov(on_mean_s=3.0, off_mean_s=17.0, targets=("worker:*",)),
    Poisson(mean_s=30.0),
    PowerLaw(slot_s=0.06),
    TransientThrottle(period_s=6.0, duration_s=3.0, offset="uniform"),
    Pauses(period_s=6.0, duration_s=0.2, drift_frac=0.1),
    SequenceLengths(num_sequences=2),
]
CONTINUED = [*RANDOM, SlowLoader(), OnOff(on_s=6.0, off_s=5.0)]


def check_streams(pattern: Pattern) -> None:
    """Another worker does not shift the others' draws, and no two workers draw alike."""
    few, many = (by_target(pattern.plan(cluster_of(n), 300.0, 3)) for n in (4, 9))
    assert len(many) == 9
    assert all(few[target] == many[target] for target in few)
    windows = {tuple((one.start_s, one.magnitude) for one in own) for own in many.values()}
    assert len(windows) == 9


@pytest.mark.few(4)
@pytest.mark.parametrize("pattern", RANDOM, ids=lambda pattern: pattern.name)
def test_every_target_has_its_own_stream(pattern: Pattern) -> None:
    check_streams(pattern)


@pytest.mark.parametrize("pattern", CONTINUED, ids=lambda pattern: pattern.name)
def test_a_longer_horizon_continues_a_shorter_one(pattern: Pattern) -> None:
    short, long = (pattern.plan(HOSTS, horizon_s, 3) for horizon_s in (60.0, 240.0))
    assert short.disturbances == build_plan("p", 3, 60.0, long.disturbances).disturbances
    assert short.disturbances


@pytest.mark.parametrize("pattern", [*RANDOM, OnOff(), Throttle()], ids=lambda pattern: pattern.name)
def test_a_part_of_a_combination_draws_what_it_draws_alone(pattern: Pattern) -> None:
    plan = Combined(patterns={"a": pattern, "b": Persistent()}).plan(HOSTS, 60.0, 7)
    alone = [one for part in (pattern, Persistent()) for one in part.plan(HOSTS, 60.0, 7).disturbances]
    assert plan == build_plan("combined", 7, 60.0, alone)


def test_exponential_draws_are_exponential_and_pinned() -> None:
    """Published plans must stay as they are, so these draws must never change."""
    draws = streams_module.stream(0, "kill", "worker:0")
    values = [streams_module.exponential(draws) for _ in range(10_000)]
    assert stats.kstest(values, stats.expon.cdf).pvalue > 0.001
    assert stats.kstest(values, stats.expon(scale=1.1).cdf).pvalue < 0.001
    assert values[:2] == pytest.approx([1.4164332972371514, 3.214924700462632], rel=1e-12)


def test_throttles_hold_and_take_turns() -> None:
    plan = Throttle(targets=("host:*", "worker:1"), left_frac=0.2, start_s=3.0).plan(HOSTS, 10.0, 0)
    assert rows(plan) == [(f"host:{host}", 3.0, 10.0, "cpu", 0.2) for host in range(4)] + [
        ("worker:1", 3.0, 10.0, "cpu", 0.2)
    ]
    plan = Throttle(targets=("link:0>2",), kind="bandwidth", start_s=3.0, duration_s=4.0).plan(HOSTS, 10.0, 0)
    assert rows(plan) == [("link:0>2", 3.0, 7.0, "bandwidth", 0.25)]
    assert Throttle(start_s=11.0).plan(HOSTS, 10.0, 0).disturbances == ()
    plan = OnOff(on_s=6.0, off_s=4.0, targets=("worker:0", "worker:2")).plan(HOSTS, 23.0, 0)
    spans = [(0.0, 6.0), (10.0, 16.0), (20.0, 23.0)]
    assert rows(plan) == [(f"worker:{w}", *span, "cpu", 0.1) for span in spans for w in (0, 2)]


def picked(num_workers: int, seed: int, pick: int = 1) -> set[str]:
    pattern = Throttle(targets=("worker:*", "server:*"), pick=pick)
    return set(by_target(pattern.plan(cluster_of(num_workers), 1.0, seed)))


def test_picks_are_even_and_pinned() -> None:
    counts = Counter(target for seed in range(300) for target in picked(4, seed))
    assert len(counts) == 6
    assert stats.chisquare(list(counts.values())).pvalue > 0.001
    # A published plan can be made again, also by another process
    assert [picked(4, seed) for seed in range(6)] == [
        {target} for target in ["server:0", *["worker:0"] * 4, "server:1"]
    ]


def test_a_transient_throttle_has_the_windows_of_the_delays_that_it_draws_as() -> None:
    periods: dict[str, Any] = {"period_s": 6.0, "duration_s": 3.0, "offset": "uniform"}
    delays = Transient(**periods).plan(HOSTS, 600.0, 5)
    plan = TransientThrottle(**periods, left_frac=0.1, draws_of="transient").plan(HOSTS, 600.0, 5)
    assert rows(plan) == [(one.target, one.start_s, one.end_s, "cpu", 0.1) for one in delays.disturbances]
    other = TransientThrottle(**periods, left_frac=0.1).plan(HOSTS, 600.0, 5)
    assert {one.start_s for one in other.disturbances}.isdisjoint(one.start_s for one in delays.disturbances)


EFFECTS: list[tuple[Kind, float, str]] = [
    ("delay", 0.3, "worker:*"),
    ("slowdown", 2.0, "server:*"),
    ("cpu", 0.4, "host:1"),
    ("bandwidth", 0.4, "link:1>0"),
    ("cut", 1.0, "link:*"),
    ("pause", 1.0, "host:*"),
    ("kill", 1.0, "server:1"),
]


def test_patterns_in_time_plan_every_kind() -> None:
    for kind, magnitude, target in EFFECTS:
        about: dict[str, Any] = {"kind": kind, "magnitude": magnitude, "targets": (target,)}
        patterns = (
            OnOff(on_s=1, off_s=2, **about),
            Markov(on_mean_s=1, off_mean_s=2, **about),
            Poisson(mean_s=3, **about),
        )
        for plan in (pattern.plan(HOSTS, 60.0, 0) for pattern in patterns):
            validate_plan(plan, HOSTS)
            assert {(one.kind, one.magnitude) for one in plan.disturbances} == {(kind, magnitude)}


def test_stays_are_exponential_and_never_touch() -> None:
    """After FlexRR's disrupted machine: on 20 s, off 60 s on average."""
    plan = Markov().plan(cluster_of(1, num_hosts=1), 100_000.0, 0)
    windows = plan.disturbances[1:-1]  # without what the run's start and end cut off
    on = [one.end_s - one.start_s for one in windows]
    off = [second.start_s - first.end_s for first, second in pairwise(windows)]
    assert min(off) > 0
    for lengths, mean_s in ((on, 20.0), (off, 60.0)):
        assert stats.kstest(lengths, stats.expon(scale=mean_s).cdf).pvalue > 0.001
        assert stats.kstest(lengths, stats.expon(scale=mean_s * 1.15).cdf).pvalue < 0.001
    assert sum(on) / 100_000.0 == pytest.approx(0.25, abs=0.04)


def test_lives_are_exponential_and_every_kill_has_its_delay() -> None:
    plan = Poisson(mean_s=30.0, duration_s=2.0, targets=("worker:0",)).plan(HOSTS, 120_000.0, 0)
    windows = plan.disturbances
    assert len(windows) == pytest.approx(120_000 / 32, rel=0.06)
    assert {one.kind for one in windows} == {"kill"}
    assert all(one.end_s - one.start_s == pytest.approx(2.0, abs=2e-6) for one in windows[:-1])
    lives = [windows[0].start_s, *(second.start_s - first.end_s for first, second in pairwise(windows))]
    assert min(lives) >= 0
    assert stats.kstest(lives, stats.expon(scale=30.0).cdf).pvalue > 0.001
    assert stats.kstest(lives, stats.expon(scale=33.0).cdf).pvalue < 0.001


def delays_in_iterations(**fields: Any) -> list[float]:
    plan = PowerLaw(slot_s=0.06, **fields).plan(cluster_of(4), 600.0, 0)
    return [one.magnitude / 0.06 for one in plan.disturbances]


def test_delays_have_the_tail_of_the_formula_up_to_the_cap() -> None:
    """P(delay > x) = (1 + x)^-(alpha - 1): a Lomax distribution."""
    delays = delays_in_iterations(cap_iters=1e9)[::2]
    assert stats.kstest(delays, stats.lomax(3.0).cdf).pvalue > 0.001
    assert stats.kstest(delays, stats.lomax(3.2).cdf).pvalue < 0.001
    delays = delays_in_iterations(cap_iters=9.0)
    assert max(delays) == pytest.approx(9.0)
    assert sum(delay > 8.999 for delay in delays) == pytest.approx(40_000 * 10.0**-3, rel=0.5)
