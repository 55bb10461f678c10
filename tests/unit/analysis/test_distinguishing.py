"""Verdicts on paired times: against scipy's t test, tables of statistical power, and integrals by brute force."""

from __future__ import annotations

from math import exp, inf, isnan, nan

import numpy as np
import pytest
from scipy import stats

from analysis.measures.distinguishing import MOST_SEEDS, distinguish, power_of, seeds_needed
from analysis.measures.profiles import profile_scores


@pytest.mark.parametrize("seed", range(12))
def test_a_verdict_is_that_of_the_t_test_of_logarithms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ratios = np.exp(rng.normal(rng.choice([-0.3, 0.0, 0.3]), 0.2, size=rng.integers(3, 9)))
    found = distinguish(ratios)
    if stats.ttest_1samp(np.log(ratios), 0.0).pvalue >= 0.05:
        assert found.verdict == "not distinguishable"
    else:  # the interval is extended to the median, which can only make a verdict rarer
        assert found.verdict in ("faster" if np.log(ratios).mean() < 0 else "slower", "not distinguishable")
    assert found.low <= found.ratio <= found.high


def test_what_is_certain_but_tiny_is_the_same_and_one_seed_says_nothing() -> None:
    assert distinguish([0.998, 0.9979, 0.9981]).verdict == "the same"
    assert distinguish([0.98, 0.9799, 0.9801]).verdict == "faster"
    assert distinguish([1.02, 1.0199, 1.0201]).verdict == "slower"
    found = distinguish([0.1])
    assert (found.verdict, found.pairs, found.seeds_needed) == ("too few seeds", 1, 0)
    assert isnan(found.low)
    assert isnan(distinguish([]).ratio)


def test_runs_that_never_ended_need_six_seeds() -> None:
    """Of five medians' order statistics no interval is bounded at 95 %; with six, the extremes are one (binomial)."""
    assert distinguish([inf] * 4 + [1.5]).verdict == "not distinguishable"
    assert distinguish([inf] * 5 + [1.5]).verdict == "slower"
    assert distinguish([0.0] * 5 + [0.5]).verdict == "faster"


@pytest.mark.parametrize(("effect", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10)])
def test_seeds_needed_are_those_of_the_tables(effect: float, pairs: int) -> None:
    """Paired t test, two-sided, 5 %, power 80 %: the numbers that G*Power gives (Faul et al. 2007)."""
    differences = np.array([effect - 1.0, effect, effect + 1.0])  # standard deviation 1
    assert seeds_needed(differences) == pairs
    assert power_of(effect, pairs) >= 0.8 > power_of(effect, pairs - 1)


def test_seeds_needed_where_there_is_nothing_to_find_and_either_way_round() -> None:
    assert seeds_needed(np.array([0.0, 0.0])) == MOST_SEEDS
    assert seeds_needed(np.array([-1e-9, 0.0, 1.01e-9])) == MOST_SEEDS
    assert seeds_needed(np.array([0.3, 0.3])) == 2
    assert seeds_needed(np.array([0.3])) == seeds_needed(np.array([0.3, inf])) == 0
    ratios = np.array([0.5, 0.9, 0.6, 1.2])
    one, other = distinguish(ratios), distinguish(1.0 / ratios)
    assert one.seeds_needed == other.seeds_needed == seeds_needed(np.log(ratios)) > 2


@pytest.mark.parametrize("pairs", [2, 3, 10])
def test_without_an_effect_the_power_is_the_significance(pairs: int) -> None:
    """Rejections are false ones then, on both sides."""
    assert power_of(0.0, pairs) == pytest.approx(0.05)
    assert power_of(0.0, pairs, 0.2) == pytest.approx(0.2)


def test_a_profile_score_is_the_area_below_the_profile() -> None:
    rng = np.random.default_rng(1)
    times = np.exp(rng.normal(0.0, 0.6, size=(7, 5)))
    times[2, 3] = inf
    ratios = times / times.min(axis=1, keepdims=True)
    factors = np.linspace(1.0, 4.0, 20_001)
    areas = [
        np.trapezoid([(ratios[:, one] <= r).mean() for r in factors[::200]], factors[::200]) / 3 for one in range(5)
    ]
    assert profile_scores(times) == pytest.approx(areas, abs=2e-3)
    # Best, 2.5 times as long, five times as long: 1, (4 - 2.5) / 3 and 0; who lacks a case has no score.
    assert profile_scores(np.array([[1.0, 2.5, 5.0, nan], [4.0, 10.0, inf, 1.0 * exp(9)]])).tolist()[:3] == [1, 0.5, 0]
    assert isnan(profile_scores(np.array([[1.0, nan], [1.0, 1.0]]))[1])


def test_times_that_are_only_known_to_a_step() -> None:
    """At 0.9 by a whole step: one was there at an evaluation at which the other was not."""
    unclear = dict.fromkeys([(0.95, 0.1), (1.05, 0.1), (1.0, 0.1)], "not distinguishable")
    faster = dict.fromkeys([(0.85, 0.1), (0.9, 0.1)], "faster")
    for case, verdict in {**unclear, **faster, (1.0, 0.005): "the same", (1.0, nan): "the same"}.items():
        found = distinguish([case[0]] * 5, case[1])
        assert (found.verdict, found.coarse) == (verdict, verdict == "not distinguishable")
        assert not found.coarse or found.seeds_needed == 0
