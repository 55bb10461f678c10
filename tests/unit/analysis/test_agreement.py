"""Paired errors, their intervals, strict verdicts and orders, with numbers worked by hand."""

from __future__ import annotations

from itertools import product
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures.agreement import OFF, UNCLEAR, WITHIN, agreement, order, relative


def test_relative_errors_and_their_agreement() -> None:
    pairs = [(10, 11), (0, 0), (0, 1), (inf, 5), (5, inf), (inf, inf), (nan, 1), (1, nan)]
    expected = [0.1, 0.0, inf, -1.0, inf, nan, nan, nan]
    assert [relative(*pair) for pair in pairs] == pytest.approx(expected, nan_ok=True)
    assert agreement([0.01, 0.02, -0.01, 0.03, 0.0]) == (0.01, -0.01, 0.03, 0.03, 5, WITHIN)
    assert [agreement([0.1, -0.3, last]).worst for last in (0.2, 0.4)] == [-0.3, 0.4]
    errors = [relative(1.0, 1.05), relative(1.0, 0.95), 0.0, 0.0, 0.0]
    assert agreement(errors).verdict == WITHIN, "a bound is met with equality"
    assert agreement([0.0501, *errors[1:]]).verdict == UNCLEAR
    assert agreement([nan, 0.01, nan, 0.02]).pairs == 2, "where neither side got there, there is no pair"
    none = agreement([nan, nan])
    assert (none.pairs, none.verdict, isnan(none.error)) == (0, None, True)


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
        ([0.0, 0.0, 0.0, 0.0, inf], 0.05, UNCLEAR),
        ([inf] * 5, 0.05, OFF),  # one side never got there
        ([-1.0] * 5, 0.05, OFF),
    ],
)
def test_errors_have_a_verdict(errors: list[float], tolerance: float, verdict: str) -> None:
    assert agreement(errors, tolerance).verdict == verdict


@settings(max_examples=10)
@given(st.lists(st.floats(-0.5, 0.5), min_size=5, max_size=5, unique=True))
def test_the_interval_is_that_of_every_resample(errors: list[float]) -> None:
    """All 5^5 resamples: a median of the least value has probability 0.058, so the interval reaches the extremes."""
    medians = np.median(list(product(errors, repeat=5)), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975], method="inverted_cdf")
    found = agreement(errors)
    assert (found.low, found.high) == (low, high) == (min(errors), max(errors))


def times(**columns: float | list[float]) -> pd.DataFrame:
    """Five seeds; a number stands for five equal ones."""
    return pd.DataFrame(
        {name: value if isinstance(value, list) else [value] * 5 for name, value in columns.items()}, index=range(5)
    )


LUCK = [1.0, 1.5, 2.0, 2.5, 3.0]
SCATTERED = [1.2, 1.2, 1.2, 1.3, 0.9]
ORDERS: dict[str, tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]] = {
    "b is 4 % slower: not distinguished, so only c counts": (
        times(a=1.0, b=1.04, c=2.0),
        times(a=1.02, b=1.01, c=2.0),
        {"live": "a < b < c", "virtual": "b < a < c", "pairs": 2, "kept": 2, "verdict": WITHIN},
    ),
    "no pair is distinguished": (times(a=1.0, b=1.04), times(a=2.0, b=1.0), {"pairs": 0, "verdict": None}),
    "a swap": (
        times(a=1.0, b=1.2, c=2.0),
        times(a=1.3, b=1.2, c=2.0),
        {"pairs": 3, "kept": 2, "swapped": "a / b", "verdict": OFF},
    ),
    "a tie does not show the order": (times(a=1.0, b=2.0), times(a=1.0, b=1.0), {"swapped": "a / b"}),
    "live, b is faster with one seed: the interval of the ratio reaches below 1": (
        times(a=1.0, b=SCATTERED),
        times(a=1.0, b=0.5),
        {"live": "a < b", "pairs": 0, "verdict": None},
    ),
    "virtual runs that scatter leave it undecided": (
        times(a=1.0, b=1.5),
        times(a=1.0, b=SCATTERED),
        {"pairs": 1, "kept": 0, "swapped": "", "undecided": "a / b", "verdict": UNCLEAR},
    ),
    "times differ threefold from seed to seed, b is slower under each": (
        times(a=LUCK, b=[1.1 * one for one in LUCK]),
        times(a=LUCK, b=[1.02 * one for one in LUCK]),
        {"pairs": 1, "kept": 1, "verdict": WITHIN},
    ),
    "who never gets there is last": (
        times(a=inf, b=2.0, c=inf),
        times(a=9.0, b=inf, c=inf),
        {
            **{"live": "b < a (never) = c (never)", "virtual": "a < b (never) = c (never)"},
            **{"pairs": 2, "swapped": "b / a", "undecided": "b / c"},
        },
    ),
    "four seeds tell nobody apart": (times(a=1.0, b=9.0)[:4], times(a=1.0, b=9.0)[:4], {"verdict": None}),
}


@pytest.mark.parametrize("case", ORDERS)
def test_orders_are_compared(case: str) -> None:
    live, virtual, expected = ORDERS[case]
    found = order(live, virtual)._asdict()
    assert {name: found[name] for name in expected} == expected


values = st.dictionaries(st.sampled_from("abc"), st.lists(st.floats(0.1, 100), min_size=5, max_size=5), min_size=2)


@settings(max_examples=20)
@given(values, st.floats(0.5, 2))
def test_a_common_factor_keeps_the_order_and_the_reverse_order_is_never_the_same(
    live: dict[str, list[float]], factor: float
) -> None:
    found = order(times(**live), times(**live) * factor)
    assert (found.kept, found.verdict) == (found.pairs, WITHIN if found.pairs else None)
    found = order(times(**live), 1.0 / times(**live))
    assert (found.kept, found.verdict) == (0, OFF if found.pairs else None)
