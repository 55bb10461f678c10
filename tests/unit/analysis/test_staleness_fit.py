"""Fits of the price of staleness to jobs whose kappa and phi are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.fitting.staleness import MOST_PHI, fit_staleness, squared

STALENESS = {1: 9.0, 2: 1.0, 3: 0.4, 4: 0.0}
"""Mean squares of four equal workers, about."""
BATCH = 32.0


def jobs(
    kappa: float,
    phi: float,
    *,
    seeds: int = 1,
    noise: float = 0.0,
    limit: float = np.inf,
    sizes: tuple[int, ...] = (1, 2, 3, 4),
) -> pd.DataFrame:
    """Updates by the model, with errors of ``noise``; who needs more than ``limit`` updates was cut off there."""
    rng, rows = np.random.default_rng(1), []
    for seed in range(seeds):
        for x in sizes:
            ideal = 100.0 * (1 + phi / (x * BATCH)) * (1 + kappa * STALENESS[x])
            needed = ideal * np.exp(noise * rng.standard_normal())
            rows.append((seed, x, min(needed, limit), needed <= limit, STALENESS[x]))
    return pd.DataFrame(rows, columns=["seed", "x", "updates", "reached", "sqr_staleness"])


@pytest.mark.parametrize(("kappa", "phi"), [(0.0, 300.0), (0.14, 300.0), (2.0, 5000.0), (0.5, 20.0)])
def test_kappa_and_phi_are_found(kappa: float, phi: float) -> None:
    found = fit_staleness(jobs(kappa, phi), BATCH)
    assert found.kappa == pytest.approx(kappa, rel=0.02, abs=0.002)
    assert found.phi_samples == pytest.approx(phi, rel=0.05)
    assert not found.bound


def test_the_interval_holds_what_is_true() -> None:
    found = fit_staleness(jobs(0.3, 300.0, seeds=6, noise=0.05), BATCH, 300.0)
    low, high = found.kappa_interval
    assert low < 0.3 < high
    assert high - low < 0.2
    assert low <= found.kappa <= high


def test_one_seed_has_no_interval_and_a_given_phi_is_kept() -> None:
    found = fit_staleness(jobs(0.3, 300.0, seeds=1), BATCH)
    assert np.isnan(found.kappa_interval).all()
    found = fit_staleness(jobs(0.2, 300.0), BATCH, 300.0)
    assert found.phi_samples == 300.0
    assert found.kappa == pytest.approx(0.2, rel=0.01)
    with pytest.raises(ValueError, match="fewer than two x reached the target"):
        fit_staleness(jobs(0.1, 300.0, sizes=(4,)), BATCH)


def test_progress_per_sample_has_the_largest_phi() -> None:
    """A rate in proportion to the update's share of the batch: x gradients do x / N of the work of all."""
    rows = jobs(0.2, MOST_PHI)
    found = fit_staleness(rows.assign(updates=100.0 * 4 / rows["x"] * (1 + 0.2 * rows["sqr_staleness"])), BATCH)
    assert found.kappa == pytest.approx(0.2, rel=0.01)
    assert found.phi_samples > 1e4


def test_what_was_never_reached_is_worth_infinity() -> None:
    """x = 1 would need 100 (1 + 300/32) (1 + 2 9) = 19712 updates and was cut off after 1500, less than x = 2 needs:
    the other x decide."""
    cut = jobs(2.0, 300.0)
    cut.loc[cut["x"] == 1, ["updates", "reached"]] = [1500.0, False]
    found = fit_staleness(cut, BATCH)
    assert found.kappa == pytest.approx(2.0, rel=0.05)
    assert not found.bound


@pytest.mark.long(like="test_the_interval_holds_what_is_true")
def test_a_job_that_was_cut_off_is_only_known_to_need_more() -> None:
    """One of two seeds of x = 1: the fit may say more than it made, and must not say less."""
    cut = jobs(2.0, 300.0, seeds=2)
    first = (cut["x"] == 1) & (cut["seed"] == 0)
    cut.loc[first, ["updates", "reached"]] = [5000.0, False]
    assert fit_staleness(cut, BATCH, 300.0).kappa == pytest.approx(2.0, rel=0.02)
    cut.loc[first, "updates"] = 40_000.0
    assert fit_staleness(cut, BATCH, 300.0).kappa > 2.1


def test_kappa_is_a_bound_if_nothing_stale_ever_arrived() -> None:
    rows = jobs(50.0, 300.0, limit=2000.0).assign(
        sqr_staleness=lambda frame: frame["sqr_staleness"].where(frame["x"] < 3, 0.0)
    )
    rows.loc[rows["x"] >= 3, ["updates", "reached"]] = [400.0, True]
    assert fit_staleness(rows, BATCH, 300.0).bound


def test_the_squares_of_worked_stalenesses() -> None:
    """Updates of 3 of 4, one gradient of three 1 update late: 1/3; s = 0.75 of a batch: (0.75 / 1.75 / 3)^2."""
    found = squared(np.array([0.0, 0.0, 1.0]), 0.75)
    assert found == pytest.approx({"priced": 1 / 3, "pooled": (0.75 / 1.75 / 3) ** 2})
