"""Paired errors, their intervals, strict verdicts and orders, with numbers worked by hand."""

from __future__ import annotations

from itertools import product
from math import inf, isnan, nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.agreement import OFF, UNCLEAR, WITHIN, agreement, judge, order, ranking_text, relative


@pytest.mark.parametrize(
    ("live", "virtual", "error"),
    [
        (10, 11, 0.1),
        (0, 0, 0.0),
        (0, 1, inf),
        (inf, 5, -1.0),
        (5, inf, inf),
        (inf, inf, nan),
        (nan, 1, nan),
        (1, nan, nan),
    ],
)
def test_relative_errors(live: float, virtual: float, error: float) -> None:
    assert relative(live, virtual) == pytest.approx(error, nan_ok=True)


# ---- one measure ----------------------------------------------------------------------------------------------------


def test_five_small_errors_agree() -> None:
    found = agreement([0.01, 0.02, -0.01, 0.03, 0.0])
    assert found == (0.01, -0.01, 0.03, 0.03, 5, WITHIN)


EIGHT_PERCENT = [0.08, 0.075, 0.082, 0.079, 0.084]


@pytest.mark.parametrize(
    ("errors", "tolerance", "verdict"),
    [
        (EIGHT_PERCENT, 0.05, OFF),  # the negative control, either way
        ([-error for error in EIGHT_PERCENT], 0.05, OFF),
        (EIGHT_PERCENT, 0.10, WITHIN),
        ([0.03, 0.04, 0.04, 0.05, 0.06], 0.05, UNCLEAR),  # a median within the tolerance is not enough
        ([0.04, 0.06, 0.06, 0.06, 0.06], 0.05, UNCLEAR),  # nor is it a miss
        ([-0.2, 0.0, 0.0, 0.0, 0.2], 0.05, UNCLEAR),
        ([-0.2, -0.2, 0.2, 0.2, 0.2], 0.05, UNCLEAR),  # large on both sides: no miss of one
        *(([error] * pairs, 0.05, UNCLEAR) for error in (0.0, 0.5) for pairs in (1, 2, 3, 4)),  # too few
        ([inf] * 5, 0.05, OFF),  # one side never got there
        ([-1.0] * 5, 0.05, OFF),
    ],
)
def test_errors_have_a_verdict(errors: list[float], tolerance: float, verdict: str) -> None:
    assert agreement(errors, tolerance).verdict == verdict


@pytest.mark.parametrize(
    ("errors", "error", "high"),
    [([0.03, 0.04, 0.04, 0.05, 0.06], 0.04, 0.06), ([0.0, 0.0, 0.0, 0.0, inf], 0.0, inf)],
)
def test_an_interval_that_reaches_beyond_is_unclear(errors: list[float], error: float, high: float) -> None:
    found = agreement(errors)
    assert (found.error, found.high, found.verdict) == (error, high, UNCLEAR)


def test_a_bound_is_met_with_equality() -> None:
    errors = [relative(1.0, 1.05), relative(1.0, 0.95), 0.0, 0.0, 0.0]
    assert agreement(errors).verdict == WITHIN
    assert agreement([0.0501, *errors[1:]]).verdict == UNCLEAR


def test_pairs_of_which_neither_side_got_there_do_not_count() -> None:
    assert agreement([nan, 0.01, nan, 0.02]).pairs == 2
    none = agreement([nan, nan])
    assert (none.pairs, none.verdict) == (0, None)
    assert isnan(none.error)


@given(st.lists(st.floats(-0.5, 0.5), min_size=5, max_size=5, unique=True))
def test_the_interval_is_that_of_every_resample(errors: list[float]) -> None:
    """All 5^5 resamples: a median of the least value has probability 0.058, so the interval reaches the extremes."""
    medians = np.median(list(product(errors, repeat=5)), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975], method="inverted_cdf")
    found = agreement(errors)
    assert (found.low, found.high) == (low, high) == (min(errors), max(errors))


@given(st.lists(st.floats(-0.2, 0.2), min_size=5, max_size=9))
def test_a_verdict_follows_from_its_interval(errors: list[float]) -> None:
    found = agreement(errors)
    assert found.verdict == judge(found.low, found.high, len(errors))
    assert (found.verdict == WITHIN) == (max(abs(found.low), abs(found.high)) <= 0.05 + 1e-9)


# ---- order ----------------------------------------------------------------------------------------------------------


def times(**columns: float | list[float]) -> pd.DataFrame:
    """Five seeds; a number stands for five equal ones."""
    return pd.DataFrame(
        {name: value if isinstance(value, list) else [value] * 5 for name, value in columns.items()}, index=range(5)
    )


def test_an_order_within_the_tolerance_may_change() -> None:
    """b is 4 % slower than a: not distinguished, so only c counts."""
    found = order(times(a=1.0, b=1.04, c=2.0), times(a=1.02, b=1.01, c=2.0))
    assert found == ("a < b < c", "b < a < c", 2, 2, "", "", WITHIN)
    assert order(times(a=1.0, b=1.04), times(a=2.0, b=1.0)).verdict is None


def test_a_swap_is_named() -> None:
    found = order(times(a=1.0, b=1.2, c=2.0), times(a=1.3, b=1.2, c=2.0))
    assert (found.pairs, found.kept, found.swapped, found.verdict) == (3, 2, "a / b", OFF)


def test_a_tie_does_not_show_the_order() -> None:
    assert order(times(a=1.0, b=2.0), times(a=1.0, b=1.0)).swapped == "a / b"


def test_live_runs_that_scatter_tell_nobody_apart() -> None:
    """Medians 1.0 and 1.2, but in one seed b is faster: the interval of the ratio reaches below 1."""
    found = order(times(a=1.0, b=[1.2, 1.2, 1.2, 1.3, 0.9]), times(a=1.0, b=0.5))
    assert (found.live, found.pairs, found.verdict) == ("a < b", 0, None)


def test_virtual_runs_that_scatter_leave_it_undecided() -> None:
    found = order(times(a=1.0, b=1.5), times(a=1.0, b=[1.2, 1.2, 1.2, 1.3, 0.9]))
    assert (found.pairs, found.kept, found.swapped, found.undecided, found.verdict) == (1, 0, "", "a / b", UNCLEAR)


def test_seeds_are_compared_with_themselves() -> None:
    """Times differ threefold from seed to seed, b is a tenth slower under each: paired, that is seen."""
    luck = [1.0, 1.5, 2.0, 2.5, 3.0]
    found = order(times(a=luck, b=[1.1 * one for one in luck]), times(a=luck, b=[1.02 * one for one in luck]))
    assert (found.pairs, found.kept, found.verdict) == (1, 1, WITHIN)


def test_who_never_gets_there_is_last() -> None:
    found = order(times(a=inf, b=2.0, c=inf), times(a=9.0, b=inf, c=inf))
    assert (found.live, found.virtual) == ("b < a (never) = c (never)", "a < b (never) = c (never)")
    assert (found.pairs, found.swapped, found.undecided) == (2, "b / a", "b / c")


def test_four_seeds_tell_nobody_apart() -> None:
    assert order(times(a=1.0, b=9.0)[:4], times(a=1.0, b=9.0)[:4]).verdict is None


def test_a_strategy_without_a_time_is_left_out_of_the_words() -> None:
    assert ranking_text({"a": nan, "b": 1.0}) == "b"


values = st.dictionaries(st.sampled_from("abc"), st.lists(st.floats(0.1, 100), min_size=5, max_size=5), min_size=2)


@given(values, st.floats(0.5, 2))
def test_a_common_factor_keeps_the_order(live: dict[str, list[float]], factor: float) -> None:
    found = order(times(**live), times(**live) * factor)
    assert (found.kept, found.verdict) == (found.pairs, WITHIN if found.pairs else None)


@given(values)
def test_the_reverse_order_is_never_the_same(live: dict[str, list[float]]) -> None:
    found = order(times(**live), 1.0 / times(**live))
    assert (found.kept, found.verdict) == (0, OFF if found.pairs else None)


def test_the_worst_error_may_be_one_below() -> None:
    assert agreement([0.1, -0.3, 0.2]).worst == -0.3
    assert agreement([0.1, -0.3, 0.4]).worst == 0.4
