"""Machines that are not equally fast, and AntDT's straggler experiments as one setting sweeps them."""

from __future__ import annotations

import math
from statistics import NormalDist, fmean
from typing import Any

import pytest

from injectors.patterns import Heterogeneity
from injectors.patterns.heterogeneity import relative_factors
from injectors.plan import ClusterShape
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.instantiate import instantiate
from runtime.errors import ConfigError

CLUSTER = ClusterShape(num_workers=20, num_servers=8)
HORIZON_S = 7200.0


def slowdowns(pattern: Heterogeneity, seed: int, cluster: ClusterShape = CLUSTER) -> dict[str, float]:
    """1 plus the magnitude of every target that is slowed."""
    plan = pattern.plan(cluster, HORIZON_S, seed)
    assert {(one.kind, one.start_s, one.end_s) for one in plan.disturbances} <= {("slowdown", 0.0, HORIZON_S)}
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
    plan = pattern.plan(CLUSTER, HORIZON_S, 0)
    delays = [one for one in plan.disturbances if one.kind == "delay"]
    persistent = [one for one in delays if one.of_machine]
    assert [(one.target, one.start_s, one.end_s) for one in persistent] == [("worker:0", 0.0, HORIZON_S)]
    assert persistent[0].magnitude == pytest.approx(4 * intensity)
    transient = [one for one in delays if not one.of_machine]
    assert {one.magnitude for one in transient} == {round(1.5 * intensity, 6)}
    assert {(one.start_s % 1800, one.end_s - one.start_s) for one in transient} == {(0.0, 900.0)}
    assert sum(one.kind == "slowdown" for one in plan.disturbances) == 19


def test_antdts_server_straggler_and_parts_of_another_intensity() -> None:
    pattern = composed("straggler=antdt_server", "straggler.intensity=0.5")
    delays = [one for one in pattern.plan(CLUSTER, HORIZON_S, 0).disturbances if one.kind == "delay"]
    assert [(one.target, one.magnitude, one.of_machine) for one in delays] == [("server:0", 2.0, True)]
    with pytest.raises(ConfigError, match=r"straggler\.intensity=0\.8: patterns\.transient has intensity=0\.5"):
        composed("straggler=antdt_worker", "straggler.patterns.transient.intensity=0.5")
