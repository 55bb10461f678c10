"""Learning-rate rules and even splits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.parts.weights import LR_RULES, lr_scale, staleness_factor
from strategies.protocol import split_evenly


def test_batch_linear_is_the_share_of_the_global_batch() -> None:
    """STAR: r_new = (y / N) r_SSGD when y of N workers contribute."""
    assert lr_scale("batch_linear", 32, 128) == 0.25
    assert lr_scale("batch_linear", 128, 128) == 1.0
    assert lr_scale("unit", 32, 128) == 1.0


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
