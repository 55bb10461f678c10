"""The matrices against instances worked by hand and against the equations that define them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.gradient_coding.matrices import (
    copies_of,
    cyclic,
    cyclic_of,
    fractional_repetition,
    heter_aware,
    heter_aware_of,
)
from strategies.gradient_coding.partitions import counts, support


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_fractional_repetition_repeats_blocks() -> None:
    assert fractional_repetition(4, 1).tolist() == [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
    assert (fractional_repetition(3, 2) == 1).all()
    assert (fractional_repetition(3, 0) == np.eye(3)).all()


@pytest.mark.parametrize("scheme", [fractional_repetition, lambda m, s: cyclic(m, s, chance())])
def test_somebody_has_to_be_left(scheme: Callable[[int, int], object]) -> None:
    with pytest.raises(ValueError, match="s=4: must be below the number of workers, 4"):
        scheme(4, 4)


def test_cyclic_worked_by_hand() -> None:
    """H = (1, 2, -3): row i is 1 at i and -H_i / H_(i+1) after it."""
    expected = [[1, -1 / 2, 0], [0, 1, 2 / 3], [3, 0, 1]]
    np.testing.assert_allclose(cyclic_of(np.array([[1.0, 2.0, -3.0]])), expected)


@given(st.integers(1, 9), st.data())
def test_cyclic_rows_are_in_the_null_space_on_their_support(m: int, data: st.DataObject) -> None:
    s = data.draw(st.integers(1, m - 1)) if m > 1 else 0
    if s == 0:
        assert (cyclic(m, s, chance()) == np.eye(m)).all()
        return
    others = chance(m).standard_normal((s, m - 1))
    h = np.column_stack([others, -others.sum(axis=1)])
    matrix = cyclic_of(h)
    np.testing.assert_allclose(h @ matrix.T, 0, atol=1e-9 * np.abs(matrix).max())
    held = [set(np.flatnonzero(row)) for row in matrix]
    assert held == [{(worker + step) % m for step in range(s + 1)} for worker in range(m)]
    assert (np.diag(matrix) == 1).all()


@given(st.lists(st.integers(1, 16), min_size=2, max_size=9), st.integers(1, 30), st.data())
def test_heter_aware_solves_its_equation_on_the_support(throughputs: list[int], k: int, data: st.DataObject) -> None:
    s = data.draw(st.integers(0, len(throughputs) - 1))
    mask = support(counts(throughputs, k, s), k)
    c = chance(k).random((s + 1, len(throughputs)))
    matrix = heter_aware_of(mask, c)
    np.testing.assert_allclose(c @ matrix, 1, atol=1e-9 * np.abs(matrix).max())
    assert ((matrix != 0) == mask).all()


def test_a_part_with_a_holder_too_few_is_refused() -> None:
    """One entry of a good support is removed: no code on it tolerates what it promises."""
    mask = support([1, 2, 3, 4, 4], 7)
    assert copies_of(mask) == 2
    mask[2, 4] = False
    with pytest.raises(ValueError, match="part 4 has 1 holders, part 0 has 2: every part needs the same number"):
        heter_aware(mask, chance())
