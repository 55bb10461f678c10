"""Held-out samples: drawn by the seed, and nobody else ever gets their number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.data.holdout import Holdout
from runtime.core.vectors import BLOCK_FLOATS, inner_products


@given(st.integers(1, 400), st.data())
def test_the_others_are_all_the_others_in_order(total: int, data: st.DataObject) -> None:
    count, seed = data.draw(st.integers(0, total)), data.draw(st.integers(0, 2**63 - 1))
    holdout = Holdout(total, count, seed)
    assert len(set(holdout.indices.tolist())) == count
    assert list(holdout.indices) == sorted(holdout.indices)
    kept = holdout.kept(np.arange(total - count))
    assert kept.tolist() == [sample for sample in range(total) if sample not in set(holdout.indices.tolist())]


def test_another_seed_holds_out_others() -> None:
    one, same, other = (Holdout(1438, 64, seed).indices.tolist() for seed in (0, 0, 1))
    assert one == same != other


@pytest.mark.parametrize("size", [0, 1, BLOCK_FLOATS - 1, BLOCK_FLOATS, 3 * BLOCK_FLOATS + 5])
def test_inner_products_are_in_double_precision(size: int) -> None:
    rng = np.random.default_rng(size)
    one, other = (rng.normal(size=size).astype(np.float32) for _ in range(2))
    pairs = ((one, other), (one, one), (other, other))
    exact = [float(np.dot(left.astype(float), right.astype(float))) for left, right in pairs]
    assert inner_products(one, other) == pytest.approx(exact, rel=1e-12, abs=1e-12)
