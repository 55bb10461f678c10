"""Patterns of workers: they leave, join, are late or silent from the start, or are not equally fast."""

from __future__ import annotations

import math
from collections import Counter
from statistics import NormalDist, fmean
from typing import Any

import pytest

from injectors.patterns import Elastic, Heterogeneity, RandomWorkers
from injectors.patterns.heterogeneity import relative_factors
from injectors.patterns.random_workers import ENDLESS_S
from injectors.plan import ClusterShape, Disturbance, build_plan, validate_plan
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.instantiate import instantiate
from runtime.errors import ConfigError

CLUSTER = ClusterShape(num_workers=4, num_servers=1)
HORIZON_S = 600.0


def changes(seed: int = 0, num_workers: int = 4, **fields: Any) -> list[tuple[float, str, int]]:
    plan = Elastic(**fields).plan(ClusterShape(num_workers=num_workers, num_servers=1), HORIZON_S, seed)
    return [(one.start_s, one.kind, int(one.target.partition(":")[2])) for one in plan.disturbances]


@pytest.mark.parametrize(("seed", "least"), [(0, 1), (1, 3)])
def test_a_replacement_joins_after_every_leave_with_the_next_number(seed: int, least: int) -> None:
    here, following, due = set(range(4)), 4, []
    for at_s, kind, worker in changes(seed, rejoin_s=7.0, least_workers=least):
        if kind == "leave":
            here.remove(worker)
            due.append(at_s + 7.0)
        else:
            assert (worker, at_s) == (following, pytest.approx(due.pop(0), abs=1e-5))
            following += 1
            here.add(worker)
        assert len(here) >= least
    assert following > 15
    assert all(at_s >= HORIZON_S for at_s in due)


def test_workers_leave_at_a_rate_of_their_own_and_the_last_stays() -> None:
    """60 an hour: in 600 s ten of each, and forty in all."""
    leaves = [sum(kind == "leave" for _, kind, _ in changes(seed, rejoin_s=0.0)) for seed in range(100)]
    assert 38 < sum(leaves) / len(leaves) < 42
    found = changes(leaves_per_hour=3600.0, rejoin_s=None)
    assert sorted(kind for _, kind, _ in found) == ["leave"] * 3
    assert len({worker for _, _, worker in found}) == 3
    first = {worker: at_s for at_s, _, worker in changes(rejoin_s=None, num_workers=9)}
    for at_s, _, worker in changes(rejoin_s=None, num_workers=4):
        assert first[worker] == at_s


def test_who_cannot_join_or_leave() -> None:
    for kind, target, said in (
        ("join", "worker:3", "the next worker is worker:4"),
        ("leave", "server:1", "acts on worker"),
    ):
        one = Disturbance(start_s=1.0, end_s=2.0, target=target, kind=kind, magnitude=1.0)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=said):
            validate_plan(build_plan("p", 0, HORIZON_S, [one]), CLUSTER)


EIGHT = ClusterShape(num_workers=8, num_servers=1, base_iter_s=2.0)


def drawn(seed: int = 0, cluster: ClusterShape = EIGHT, **fields: Any) -> tuple[Disturbance, ...]:
    return RandomWorkers(**fields).plan(cluster, 600.0, seed).disturbances


def test_they_are_late_from_the_start_to_the_end() -> None:
    found = drawn(num_workers=2, sleep_iters=1.5)
    assert len({one.target for one in found}) == 2
    assert {(one.start_s, one.end_s, one.kind, one.magnitude) for one in found} == {(0.0, 600.0, "delay", 3.0)}
    assert drawn(sleep_s=0.7, sleep_iters=None)[0].magnitude == 0.7
    assert {one.magnitude for one in drawn(num_workers=2, fault=True)} == {ENDLESS_S}


def test_every_worker_is_drawn_about_as_often() -> None:
    """Of 800 seeds; 100 each, a standard deviation is 9."""
    counts = Counter(drawn(seed)[0].target for seed in range(800))
    assert len(counts) == 8
    assert min(counts.values()) > 60


@pytest.mark.parametrize("seed", range(2))
def test_who_is_drawn_follows_from_the_seed_alone(seed: int) -> None:
    one = {each.target for each in drawn(seed, num_workers=1)}
    two = {each.target for each in drawn(seed, num_workers=2, fault=True)}
    assert one < two, "a second straggler joins the first"
    assert two == {each.target for each in drawn(seed, num_workers=2, sleep_iters=4.0)}


TWENTY = ClusterShape(num_workers=20, num_servers=8)
TWO_HOURS_S = 7200.0


def slowdowns(pattern: Heterogeneity, seed: int, cluster: ClusterShape = TWENTY) -> dict[str, float]:
    """1 plus the magnitude of every target that is slowed."""
    plan = pattern.plan(cluster, TWO_HOURS_S, seed)
    assert {(one.kind, one.start_s, one.end_s) for one in plan.disturbances} <= {("slowdown", 0.0, TWO_HOURS_S)}
    return {one.target: 1 + one.magnitude for one in plan.disturbances}


def test_factors_are_the_quantiles_of_a_lognormal_of_mean_one() -> None:
    factors = relative_factors(20, 0.35)
    assert fmean(factors) == pytest.approx(1.0)
    assert factors == sorted(factors)
    assert math.log(factors[-1] / factors[0]) == pytest.approx(0.35 * 2 * NormalDist().inv_cdf(19.625 / 20.25))
    assert 0.9 / 4096 * factors[0] == pytest.approx(1.0829e-4, rel=1e-4), "compute_per_sample_s of antdt_cluster_a"


def test_every_seed_deals_out_the_same_factors_anew() -> None:
    one, other = (slowdowns(Heterogeneity(), seed) for seed in (0, 1))
    assert sorted(one.values()) == pytest.approx(sorted(other.values()))
    assert one != other
    assert one == slowdowns(Heterogeneity(), 0)
    assert len(one) == 19, "the fastest is left alone"
    factors = relative_factors(20, 0.35)
    assert max(one.values()) == pytest.approx(factors[-1] / factors[0], abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_middling_target_has_the_middle_factor_with_every_seed(seed: int) -> None:
    factors = relative_factors(20, 0.35)
    dealt = slowdowns(Heterogeneity(middling=("worker:7",)), seed)
    assert dealt["worker:7"] == pytest.approx(factors[10] / factors[0], abs=1e-5)
    assert len(set(dealt.values())) == 19


def composed(*words: str) -> Any:
    """The pattern that a command line asks for."""
    with composing(parse_arguments([])) as composer:
        return instantiate(composer.raw(words)["straggler"], "straggler")


@pytest.mark.parametrize("intensity", [0.1, 0.8])
def test_antdts_worker_stragglers_have_the_papers_times(intensity: float) -> None:
    """AntDT section VII-A4: 15 of 30 minutes 1.5 s, all the time 4 s, both scaled by Table III's intensity."""
    pattern = composed("straggler=antdt_worker", f"straggler.intensity={intensity}")
    plan = pattern.plan(TWENTY, TWO_HOURS_S, 0)
    delays = [one for one in plan.disturbances if one.kind == "delay"]
    persistent = [one for one in delays if one.of_machine]
    assert [(one.target, one.start_s, one.end_s) for one in persistent] == [("worker:0", 0.0, TWO_HOURS_S)]
    assert persistent[0].magnitude == pytest.approx(4 * intensity)
    transient = [one for one in delays if not one.of_machine]
    assert {one.magnitude for one in transient} == {round(1.5 * intensity, 6)}
    assert {(one.start_s % 1800, one.end_s - one.start_s) for one in transient} == {(0.0, 900.0)}
    assert sum(one.kind == "slowdown" for one in plan.disturbances) == 19


def test_antdts_server_straggler_and_parts_of_another_intensity() -> None:
    pattern = composed("straggler=antdt_server", "straggler.intensity=0.5")
    delays = [one for one in pattern.plan(TWENTY, TWO_HOURS_S, 0).disturbances if one.kind == "delay"]
    assert [(one.target, one.magnitude, one.of_machine) for one in delays] == [("server:0", 2.0, True)]
    with pytest.raises(ConfigError, match=r"straggler\.intensity=0\.8: patterns\.transient has intensity=0\.5"):
        composed("straggler=antdt_worker", "straggler.patterns.transient.intensity=0.5")
