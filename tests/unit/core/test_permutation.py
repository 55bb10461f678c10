"""Computed shuffles: bijections, equally likely orders, and the same for one position as for many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from runtime.core.data import permutation
from runtime.core.data.permutation import MAX_LENGTH, MAX_TABLE, Key, permute, permute_one
from tests.support.long_tests import long_after

KEYS = st.lists(st.integers(0, 2**64 - 1), max_size=4).map(tuple)
PINNED_12 = {"sorted": [6, 1, 10, 11, 5, 8], "network": [4, 0, 1, 9, 2, 5]}
"""How the order of twelve begins."""
PINNED_ONE = 149478288953
LENGTHS = st.one_of(
    st.integers(1, 3000),
    st.integers(1, 60).map(lambda root: root * root),
    st.integers(2, 60).map(lambda root: root * root + 1),
    st.sampled_from([2**k + d for k in range(2, 14) for d in (-1, 0, 1)]),
)


@pytest.fixture(params=["sorted", "network"], autouse=True, scope="module")
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Short lengths are sorted; everything must hold for the network at short lengths, too."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "network":
            patch.setattr(permutation, "MAX_SORTED", 0)
        yield request.param


def whole(length: int, key: Key) -> NDArray[np.int64]:
    return permute(np.arange(length, dtype=np.int64), length, key)


def is_bijection(values: NDArray[np.int64], length: int) -> bool:
    return bool(np.array_equal(np.sort(values), np.arange(length)))


@settings(max_examples=25)
@given(LENGTHS, KEYS)
def test_it_is_a_bijection(length: int, key: Key) -> None:
    assert is_bijection(whole(length, key), length)


@settings(max_examples=25)
@given(LENGTHS, KEYS, st.data())
def test_one_position_is_the_same_as_many(length: int, key: Key, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, length - 1))
    assert permute_one(position, length, key) == whole(length, key)[position]


@settings(max_examples=20)
@given(st.integers(MAX_TABLE**2 - 5, MAX_LENGTH), KEYS, st.data())
def test_long_ranges(length: int, key: Key, data: st.DataObject) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, length - 1), unique=True, max_size=20)), dtype=np.int64)
    values = permute(positions, length, key)
    assert len(set(values.tolist())) == len(positions)
    assert all(0 <= value < length for value in values.tolist())
    assert [permute_one(position, length, key) for position in positions.tolist()] == values.tolist()


def test_tables_and_direct_hashes_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = [whole(length, (5, length)) for length in (1, 2, 7, 50, 2000)]
    monkeypatch.setattr(permutation, "MAX_TABLE", 0)
    permutation._network.cache_clear()
    computed = [whole(length, (5, length)) for length in (1, 2, 7, 50, 2000)]
    permutation._network.cache_clear()
    assert all(np.array_equal(first, second) for first, second in zip(looked_up, computed, strict=True))


def p_uniform(values: Iterable[int], length: int) -> float:
    counts = np.bincount(np.fromiter(values, dtype=np.int64), minlength=length)
    return float(stats.chisquare(counts).pvalue)


@pytest.mark.parametrize("length", long_after([2, 4, 9, 3, 7, 16, 45, 100], always=3))
def test_a_position_lands_everywhere_equally_often(length: int) -> None:
    orders = np.array([whole(length, (3, epoch)) for epoch in range(30 * length)])
    worst = min(p_uniform(orders[:, position].tolist(), length) for position in range(length))
    assert worst * length > 1e-3


@pytest.mark.parametrize("length", long_after([4, 3, 2, 5], always=2))
def test_all_orders_are_equally_likely(length: int) -> None:
    assert p_orders(length) > 1e-3


def p_orders(length: int, times: int = 40) -> float:
    """Of shuffles enough that each order should come so many ``times``."""
    number = {order: index for index, order in enumerate(permutations(range(length)))}
    found = [number[tuple(whole(length, (epoch,)).tolist())] for epoch in range(times * len(number))]
    return p_uniform(found, len(number))


def test_it_is_pinned(way: str) -> None:
    """A record names a seed: the order that it stands for must never change, on any platform."""
    assert whole(12, (0, 0)).tolist()[:6] == PINNED_12[way]
    assert permute_one(123_456_789, 10**12, (2**63 - 1, 7, 3)) == PINNED_ONE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, ()), "length=0: must be between 1 and"),
        ((0, MAX_LENGTH + 1, ()), "must be between 1 and"),
        ((5, 5, ()), "must lie between 0 and 4"),
        ((-1, 5, ()), "must lie between 0 and 4"),
        ((0, 5, (-1,)), "its parts must be between 0"),
        ((0, 5, (2**64,)), "its parts must be between 0"),
    ],
)
def test_what_is_out_of_range_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    position, length, key = arguments
    with pytest.raises(ValueError, match=message):
        permute_one(position, length, key)
    with pytest.raises(ValueError, match=message):
        permute(np.array([position]), length, key)
