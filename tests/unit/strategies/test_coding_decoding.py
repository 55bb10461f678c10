"""Decode weights against least squares on the rows that arrived, and what cannot be decoded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.gradient_coding.decoding import Code
from strategies.gradient_coding.matrices import (
    cyclic,
    group_based,
    heter_aware,
    heter_aware_of,
    naive,
    packed,
)
from strategies.gradient_coding.partitions import counts, support

FIVE = support([1, 2, 3, 4, 4], 7)
WORKED_C = np.array([[1.0, 1, 1, 1, 1], [2, 3, 4, 5, 6]])


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@st.composite
def coded(draw: st.DrawFn) -> tuple[Code, list[int]]:
    """A code of three to eight workers, and any of them in any order."""
    throughputs = draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=3, max_size=8))
    m, seed = len(throughputs), draw(st.integers(0, 1000))
    s, k = draw(st.integers(0, min(3, m - 1))), draw(st.integers(1, 12))
    mask = support(counts(throughputs, k, s), k)
    matrix = {
        "cyclic": lambda: cyclic(m, s, chance(seed)),
        "heter_aware": lambda: heter_aware(mask, chance(seed)),
        "group_based": lambda: group_based(mask, packed(mask), chance(seed)),
        "naive": lambda: naive(m),
    }[draw(st.sampled_from(["cyclic", "heter_aware", "group_based", "naive"]))]()
    arrived = draw(st.lists(st.sampled_from(range(m)), unique=True, max_size=m))
    return Code(matrix), arrived


@given(coded())
def test_least_squares_on_the_rows_that_arrived(case: tuple[Code, list[int]]) -> None:
    """The same sets can be decoded, and the weights are the shortest that do it or those of a plain sum."""
    code, arrived = case
    found = code.decode(arrived)
    rows = code.matrix[arrived]
    weights = np.linalg.lstsq(rows.T, np.ones(code.matrix.shape[1]), rcond=1e-12)[0] if arrived else np.zeros(0)
    residual = np.abs(weights @ rows - 1).max()
    assert found.ok == (residual <= 1e-6)
    assert set(np.flatnonzero(found.weights)) <= set(arrived)
    if found.ok and set(found.weights) - {0.0, 1.0}:
        np.testing.assert_allclose(found.weights[arrived], weights, rtol=1e-5, atol=1e-6 * np.abs(weights).max())


@pytest.mark.parametrize(
    ("dead", "weights"),
    [(0, [0, -1, -2, -3, -4]), (2, [2 / 3, 1 / 3, 0, -1 / 3, -2 / 3]), (4, [0.8, 0.6, 0.4, 0.2, 0])],
)
def test_worked_weights_of_heter_aware(dead: int, weights: list[float]) -> None:
    """C = (1 1 1 1 1; 2 3 4 5 6): a_i = (x_d - x_i) / (x_d - 1) with x the second row."""
    found = Code(heter_aware_of(FIVE, WORKED_C)).decode({0, 1, 2, 3, 4} - {dead})
    np.testing.assert_allclose(found.weights, weights, atol=1e-12)
    assert found.residual < 1e-12


def test_the_first_complete_group_is_enough() -> None:
    """Groups (2, 3) and (0, 1, 4): whichever is complete, alone; the smaller if both are."""
    groups = packed(FIVE)
    code = Code(group_based(FIVE, groups, chance()), tuple(groups))
    assert code.decode([3, 2]).weights.tolist() == [0, 0, 1, 1, 0]
    assert code.decode([4, 0, 1]).weights.tolist() == [1, 1, 0, 0, 1]
    assert code.decode(range(5)).weights.tolist() == [0, 0, 1, 1, 0]
    assert code.decode([4, 0, 1]).residual == 0


@pytest.mark.parametrize("stranger", [-1, 5])
def test_a_worker_that_the_code_does_not_know(stranger: int) -> None:
    with pytest.raises(ValueError, match=f"worker {stranger}: the code has workers 0 to 4"):
        Code(heter_aware(FIVE, chance())).decode([0, 1, stranger])
