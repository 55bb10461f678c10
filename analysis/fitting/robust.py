"""Robust medians and lines, with standard errors that assume neither normal noise nor independent observations.

Frames have a column for the value, ``block`` (successive, hence similar observations) and ``run``. Outliers are
trimmed at ``TRIM`` robust standard deviations. Errors are estimated from blocks, and for three or more runs also from
whole runs; the larger one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, nan

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TRIM = 4.0
RESAMPLES = 300
MAD_SIGMA = 1.4826
"""Standard deviation of a normal distribution with median absolute deviation 1."""


@dataclass(frozen=True)
class Estimate:
    """A value, its standard error in the same unit (NaN: unknown), and a note."""

    value: float
    error: float
    observations: int
    note: str = ""

    def scaled(self, factor: float) -> Estimate:
        """The estimate and its error multiplied by ``factor``."""
        return replace(self, value=factor * self.value, error=factor * self.error)


@dataclass(frozen=True)
class Line:
    """base + slope * x (without slope: a constant), and the residuals of the logarithms, by the frame's index."""

    base: Estimate
    slope: Estimate | None
    residuals: pd.Series


def fit_line(rows: pd.DataFrame, x: str, y: str, *, sloped: bool) -> Line:
    """``y`` = base + slope * ``x`` with neither below 0, or a constant; ``y`` must be positive.

    Fitted to the logarithms with a soft L1 loss, so noise is assumed to be relative.
    """
    from scipy.optimize import least_squares

    logs, sizes = np.log(rows[y].to_numpy(dtype="float64")), rows[x].to_numpy(dtype="float64")
    unit = float(np.median(sizes)) if sloped else 1.0
    design = np.column_stack([np.ones_like(sizes), sizes / unit] if sloped else [np.ones_like(sizes)])
    theta = np.full(design.shape[1], exp(float(np.median(logs))) / design.shape[1])
    left = logs - np.log(design @ theta)
    kept = np.ones(len(logs), dtype=bool)
    for _ in range(3):  # first on all rows, with a robust loss; then without outliers
        scale = max(sigma_of(left[kept]), 1e-9)

        def residuals(theta: Floats, kept: NDArray[np.bool_] = kept) -> Floats:
            return np.asarray(logs[kept] - np.log(design[kept] @ theta))

        theta = least_squares(residuals, theta, bounds=(0.0, np.inf), x_scale=theta, loss="soft_l1", f_scale=scale).x
        left = logs - np.log(design @ theta)
        kept = ordinary(left)
    errors = _sandwich(design[kept] / (design[kept] @ theta)[:, None], left[kept], scale, list(_owners(rows[kept])))
    number = int(kept.sum())
    slope = Estimate(float(theta[1]) / unit, float(errors[1]) / unit, number) if sloped else None
    return Line(Estimate(float(theta[0]), float(errors[0]), number), slope, pd.Series(left, index=rows.index))


def _sandwich(slopes: Floats, left: Floats, scale: float, owners: list[Floats]) -> Floats:
    """Standard errors of an M-estimate with a soft L1 loss, from residuals and slopes, clustered by owner.

    P. J. Huber, "The behavior of maximum likelihood estimates under nonstandard conditions", 1967.
    """
    weight = 1.0 / np.sqrt(1.0 + (left / scale) ** 2)
    bread = np.linalg.pinv((slopes * weight[:, None] ** 3).T @ slopes)
    found = []
    for owner in owners:
        scores = pd.DataFrame(slopes * (weight * left)[:, None]).groupby(owner).sum().to_numpy()
        found.append(np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread)))
    return np.asarray(np.max(found, axis=0))


def median(rows: pd.DataFrame, column: str) -> Estimate:
    """Median without outliers, and its error by resampling clusters."""
    rows = rows[ordinary(rows[column].to_numpy(dtype="float64"))].sort_values(column)
    values = rows[column].to_numpy(dtype="float64")
    errors = [_median_error(values, owner) for owner in _owners(rows)]
    return Estimate(float(np.median(values)), max(errors) if len(values) > 2 else nan, len(values))


def _median_error(ascending: Floats, owner: Floats) -> float:
    _, codes = np.unique(owner, return_inverse=True)
    number = int(codes.max()) + 1
    draws = np.random.default_rng(0).multinomial(number, np.full(number, 1.0 / number), size=RESAMPLES)
    ranks = (np.cumsum(times[codes]) for times in draws)
    return float(np.std([ascending[np.searchsorted(rank, rank[-1] / 2)] for rank in ranks]))


def _owners(rows: pd.DataFrame) -> Iterator[Floats]:
    """The clusters of observations: their blocks and, with enough runs, their runs."""
    yield rows["block"].to_numpy()
    if rows["run"].nunique() >= 3:
        yield rows["run"].to_numpy()


def sigma_of(values: Floats) -> float:
    """Standard deviation, estimated from the median absolute deviation."""
    return MAD_SIGMA * float(np.median(np.abs(values - np.median(values))))


def ordinary(values: Floats) -> NDArray[np.bool_]:
    """Mask of the values that are not outliers."""
    return np.asarray(np.abs(values - np.median(values)) <= TRIM * sigma_of(values))
