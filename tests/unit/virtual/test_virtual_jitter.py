"""Jitter: mean one, the right spread and memory, and every worker's luck is its own."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.virtual.tasks.jitter import BLOCK, Jitter

WORKERS, BLOCKS = 40, 5


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0])
def test_factors_have_mean_one_and_the_spread_asked_for(sigma: float) -> None:
    """200,000 draws; four standard errors."""
    factors = np.concatenate([Jitter(0, worker, sigma, 0.0).block() for worker in range(200)])
    error = np.sqrt(np.expm1(sigma**2) / len(factors))
    assert factors.mean() == pytest.approx(1.0, abs=4 * error)
    assert np.log(factors).mean() == pytest.approx(-(sigma**2) / 2, abs=4 * sigma / np.sqrt(len(factors)))
    assert np.log(factors).std() == pytest.approx(sigma, rel=4 / np.sqrt(2 * len(factors)))


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.95])
def test_how_many_are_drawn_together_changes_no_bit(rho: float) -> None:
    """One by one, as blocks of any size; scipy's filter over one long draw is the oracle."""
    from scipy.signal import lfilter

    normal = Jitter(5, 2, 0.4, rho)._generator.standard_normal(2 * BLOCK)
    inputs = np.append(normal[0], normal[1:] * (1 - rho**2) ** 0.5)
    expected = np.exp(0.4 * lfilter([1.0], [1.0, -rho], inputs) - 0.4**2 / 2).tolist()
    one = Jitter(5, 2, 0.4, rho)
    assert [one.factor() for _ in range(2 * BLOCK)] == expected
    whole = Jitter(5, 2, 0.4, rho)
    assert [*whole.block(), *whole.block()] == expected
    parts = Jitter(5, 2, 0.4, rho)
    assert [factor for count in (1, 7, 700, 64, BLOCK, 252) for factor in parts.block(count)] == expected


def test_seeds_and_workers_have_streams_of_their_own() -> None:
    blocks = {(seed, worker): tuple(Jitter(seed, worker, 0.3, 0.0).block()) for seed in (0, 1) for worker in (0, 1, 10)}
    assert len(set(blocks.values())) == len(blocks)
