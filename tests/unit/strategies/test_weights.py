"""Averaging, learning-rate rules and even splits."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.parts.weights import LR_RULES, check_lr_rule, lr_scale, mean_weight, staleness_factor, worst_case_factor
from strategies.protocol import split_evenly

Counts = st.integers(1, 10_000)


@given(samples=st.lists(Counts, min_size=1, max_size=20))
def test_the_weight_makes_sums_a_mean_over_samples(samples: list[int]) -> None:
    weight = mean_weight(sum(samples))
    assert sum(weight * n for n in samples) == pytest.approx(1.0)


def test_unequal_batches_are_not_averaged_as_equals() -> None:
    """Sums 3 (of one sample) and 3 (of three samples): the mean over samples is 1.5, the mean of means would be 2."""
    assert mean_weight(4) * 3 + mean_weight(4) * 3 == 1.5


def test_batch_linear_is_the_share_of_the_global_batch() -> None:
    """STAR: r_new = (y / N) r_SSGD when y of N workers contribute."""
    assert lr_scale("batch_linear", 32, 128) == 0.25
    assert lr_scale("batch_linear", 128, 128) == 1.0
    assert lr_scale("unit", 32, 128) == 1.0


@given(parts=st.lists(Counts, min_size=1, max_size=20))
def test_rates_of_a_divided_batch_sum_to_one(parts: list[int]) -> None:
    total = sum(parts)
    assert sum(Fraction(lr_scale("batch_linear", part, total)) for part in parts) == pytest.approx(1.0)


@given(total=st.integers(0, 10_000), parts=st.integers(1, 100))
def test_an_even_split_is_even(total: int, parts: int) -> None:
    split = split_evenly(total, parts)
    assert (len(split), sum(split)) == (parts, total)
    assert max(split) - min(split) <= 1
    assert split == sorted(split, reverse=True)


def test_late_gradients_count_less_where_the_rule_says_so() -> None:
    """ADJUST_LR: four updates late, a quarter of the weight or 1 / (1 + 0.3 x 4) of it; not late, all of it."""
    assert [staleness_factor(rule, 0, 9) for rule in LR_RULES] == [1.0] * 5
    assert staleness_factor("inverse", 1, 9) == 1.0
    assert staleness_factor("inverse", 4, 9) == 0.25
    assert staleness_factor("linear", 4, 9) == pytest.approx(0.4545, abs=5e-5)
    assert (staleness_factor("batch_linear", 4, 9), staleness_factor("unit", 4, 9)) == (1.0, 1.0)


def test_adadelay_matters_early() -> None:
    """MLfabric names delay-dependent rates after AdaDelay: sqrt(t / (t + tau))."""
    found = [staleness_factor("adadelay", 10, update) for update in (10, 100, 1000)]
    assert found == pytest.approx([0.7071, 0.9535, 0.9950], abs=5e-5)


def test_the_rate_of_the_worst_case() -> None:
    assert (worst_case_factor(16), worst_case_factor(1), worst_case_factor(0)) == (0.25, 1.0, 1.0)


def test_a_rule_that_does_not_exist_is_refused() -> None:
    for rule in LR_RULES:
        check_lr_rule(rule)
    with pytest.raises(
        ValueError, match=r"^lr_rule=quadratic: must be one of batch_linear, unit, inverse, linear, adadelay$"
    ):
        check_lr_rule("quadratic")
