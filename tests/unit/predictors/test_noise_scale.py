"""The gradient noise scale: worked numbers, unbiased estimates, averages, and tables of profiled ones."""

from __future__ import annotations

import numpy as np
import pytest

from predictors.noise_scale import NoiseTerms, OnlineNoise, noise_terms
from predictors.noise_table import NoiseRow, NoiseTable, rows_of

MEANS = np.array([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])


def of(samples: list[int], means: np.ndarray) -> NoiseTerms:
    sums = means * np.array(samples)[:, None]
    mean = sums.sum(axis=0) / sum(samples)
    return noise_terms(samples, list((sums**2).sum(axis=1)), float(mean @ mean))


@pytest.mark.parametrize(
    ("samples", "sqr", "var", "phi"), [([4, 4, 4], 2 / 3, 8 / 3, 4.0), ([2, 4, 6], 0.95833, 2.16667, 2.26087)]
)
def test_worked_numbers(samples: list[int], sqr: float, var: float, phi: float) -> None:
    """L = 1.33333, T2 = 0.88889, and 1.5, 1.13889."""
    terms = of(samples, MEANS)
    assert (terms.sqr, terms.var) == pytest.approx((sqr, var), rel=1e-5)
    assert terms.phi == pytest.approx(phi, rel=1e-5)


def test_both_are_unbiased_for_unequal_batches() -> None:
    """|E g|^2 = 0.2, trace of the covariance 7.25; a plain mean of |g_i|^2 would give 22.8."""
    rng, samples = np.random.default_rng(0), [2, 8, 16, 32]
    mean, deviation = np.array([0.4, 0.2]), np.sqrt(np.array([5.0, 2.25]))
    drawn = np.array(
        [of(samples, mean + deviation * rng.standard_normal((4, 2)) / np.sqrt(samples)[:, None]) for _ in range(4_000)]
    )
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert abs(drawn.mean(axis=0) - (0.2, 7.25)) / error == pytest.approx((0.0, 0.0), abs=4.0)
    assert error[1] < 0.2, "the plain mean would be found out"


def test_impossible_estimates_do_not_count() -> None:
    assert NoiseTerms(-1.0, 2.0).phi == 2.0 / 1e-12
    assert NoiseTerms(2.0, -1.0).phi == 1e-6 / 2.0
    noise = OnlineNoise()
    noise.update(1, 1, NoiseTerms(float("nan"), 1.0))
    noise.update(1, 1, NoiseTerms(1.0, float("inf")))
    assert (noise.terms, noise.skipped) == (None, 2)


def test_averages_are_corrected_for_starting_at_zero() -> None:
    """theta = 0.5^(8 / 4) = 0.25: after 4 and 1 the mean is (0.25 x 4 + 1) / 1.25."""
    noise = OnlineNoise(smoothing=0.5, batch_samples=4)
    assert noise.phi_of(4) is None
    noise.update(1, 8, NoiseTerms(4.0, 8.0))
    assert noise.terms == NoiseTerms(4.0, 8.0)
    noise.update(2, 8, NoiseTerms(1.0, 13.0))
    assert noise.terms == pytest.approx((1.6, 12.0))
    noise.at(5)
    assert noise.phi_of(4) == pytest.approx((7.5, 3.0))


@pytest.mark.parametrize("settings", [{"smoothing": 1.0}, {"smoothing": 0.0}, {"batch_samples": 0.0}])
def test_settings_are_refused_by_name(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        OnlineNoise(**settings)


ROWS = [
    NoiseRow("a", 32, 0, 1.0, 10.0),
    NoiseRow("a", 32, 100, 3.0, 20.0),
    NoiseRow("a", 64, 0, 2.0, 40.0),
    NoiseRow("a", 64, 100, 5.0, 60.0),
    NoiseRow("b", 16, 0, 1.0, 1.0),
]


def table(step: int, smooth_rows: int = 1) -> NoiseTable:
    made = NoiseTable(rows=ROWS, model="a", smooth_rows=smooth_rows)
    made.at(step)
    return made


@pytest.mark.parametrize(
    ("step", "batch", "phi", "age"),
    [
        (0, 32, 10.0, 0.0),
        (100, 32, 20 / 3, 0.0),
        (0, 48, 25 / 1.5, 0.0),
        (0, 999, 20.0, 0.0),
    ],
)
def test_the_newest_step_interpolated_in_the_batch(step: int, batch: float, phi: float, age: float) -> None:
    """Both terms are interpolated, then divided: at 48, 25 / 1.5, and not (10 + 20) / 2."""
    assert table(step).phi_of(batch) == (pytest.approx(phi), age)


def test_files_are_read_and_noisy_rows_averaged() -> None:
    assert table(100, smooth_rows=3).phi_of(32)[0] == pytest.approx(15.0 / 2.0)
    good = {"model": "a", "batch_samples": "32", "step": "0", "sqr": "1.0", "var": "10.0"}
    assert rows_of([good]) == ROWS[:1]
    for bad in ({**good, "step": "soon"}, {"model": "a"}):
        with pytest.raises(ValueError, match=r"^line 3 is not model, batch_samples, step, sqr, var"):
            rows_of([good, bad])
