"""Fit the price of staleness to jobs with static x-order and no straggler: kappa and phi of STAR's mode times (pure).

Updates of x of N gradients reach the target after::

    U(x) = c (1 + phi / (x b)) (1 + kappa s(x))

where b is a worker's batch and s the squared staleness that is priced (:func:`squared`). STAR's equation 1 is the first
factor; the second is the price (``strategies/star/times.py``). The logarithms are fitted by least squares. A job that
did not reach the target needs more updates than it made, and the fit is penalised only if it says fewer. An x none of
whose jobs reached it is worth infinity, to which no kappa comes: it is left out, unless no x with stale gradients
reached the target. Then kappa is a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_PHI = 1e6
"""Samples. Beyond, progress is proportional to samples, and a larger phi makes no difference."""
MOST_KAPPA = 1e4
STARTS = ((0.01, 1e2), (0.1, 1e4), (1.0, 1e6))
"""Values of kappa and phi from which is searched."""
RESAMPLES = 200
CONFIDENCE = 0.95


@dataclass(frozen=True)
class StalenessFit:
    """``kappa`` and ``phi_samples`` with 95 % intervals over the seeds (NaN for one seed).

    ``bound``: kappa is a lower bound, because no x with stale gradients ever reached the target.
    """

    kappa: float
    kappa_interval: tuple[float, float]
    phi_samples: float
    phi_interval: tuple[float, float]
    bound: bool


def squared(staleness: Floats, share: float) -> dict[str, float]:
    """Return the quantity that kappa prices, by ``mode_cost``, for updates of ``share`` of the global batch each.

    ``priced``: the mean squared staleness in updates; ``pooled``: the square of the lag, the mean of s / (1 + s) with
    the staleness s in global batches. ``staleness``: updates, one number for every gradient.
    """
    batches = share * staleness
    return {"priced": float((staleness**2).mean()), "pooled": float((batches / (1.0 + batches)).mean()) ** 2}


def fit_staleness(jobs: pd.DataFrame, batch_samples: float, phi_samples: float | None = None) -> StalenessFit:
    """The price that explains how many updates every x needs.

    Args:
        jobs: a row per job: ``seed``, ``x``, ``updates`` (until the target, or all if it was not reached), ``reached``
            (bool), ``sqr_staleness`` (:func:`squared`).
        batch_samples: b.
        phi_samples: phi if it is known; None: it is fitted, too.

    Raises:
        ValueError: fewer than two x reached the target, so nothing can be compared.
    """
    if jobs.loc[jobs["reached"], "x"].nunique() < 2:
        raise ValueError("fewer than two x reached the target; choose a lower target, or more time")
    bound = not jobs.loc[jobs["sqr_staleness"] > 0, "reached"].any()
    if not bound:
        jobs = jobs[jobs.groupby("x")["reached"].transform("any")]
    known = _Known(
        samples=jobs["x"].to_numpy("float64") * batch_samples,
        sqr_staleness=jobs["sqr_staleness"].to_numpy("float64"),
        log_updates=np.log(jobs["updates"].to_numpy("float64")),
        reached=jobs["reached"].to_numpy("bool"),
        phi_samples=phi_samples,
    )
    best = min((_best(known, start) for start in STARTS), key=lambda found: found.cost)
    low, high = _intervals(known, jobs["seed"].to_numpy(), best)
    return StalenessFit(
        kappa=best.kappa,
        kappa_interval=(low[0], high[0]),
        phi_samples=best.phi_samples,
        phi_interval=(low[1], high[1]),
        bound=bound,
    )


def predicted(jobs: pd.DataFrame, batch_samples: float, kappa: float, phi_samples: float) -> pd.Series:
    """Updates that every job should need, on the scale of those that reached the target."""
    samples, sqr = jobs["x"].to_numpy("float64") * batch_samples, jobs["sqr_staleness"].to_numpy("float64")
    shape = np.log(1.0 + phi_samples / samples) + np.log(1.0 + kappa * sqr)
    level = (np.log(jobs["updates"]) - shape)[jobs["reached"]].mean()
    return pd.Series(np.exp(shape + level), index=jobs.index)


class _Known(NamedTuple):
    """The jobs as arrays; ``phi_samples``: None if it is to be fitted."""

    samples: Floats
    sqr_staleness: Floats
    log_updates: Floats
    reached: NDArray[np.bool_]
    phi_samples: float | None

    def of(self, rows: NDArray[np.int64]) -> _Known:
        """Some of the jobs, perhaps several times."""
        return _Known(
            self.samples[rows], self.sqr_staleness[rows], self.log_updates[rows], self.reached[rows], self.phi_samples
        )


class _Found(NamedTuple):
    kappa: float
    phi_samples: float
    cost: float


def _best(known: _Known, start: tuple[float, float]) -> _Found:
    """Least squares over log c, kappa and log phi, within their bounds."""
    from scipy.optimize import least_squares

    def phi_of(point: Floats) -> float:
        return float(np.exp(point[2])) if known.phi_samples is None else known.phi_samples

    def residuals(point: Floats) -> Floats:
        shape = np.log(1.0 + phi_of(point) / known.samples) + np.log(1.0 + point[1] * known.sqr_staleness)
        over = point[0] + shape - known.log_updates
        return np.asarray(np.where(known.reached, over, np.minimum(over, 0.0)))

    count = 3 if known.phi_samples is None else 2
    first = [float(known.log_updates[known.reached].mean()), start[0], float(np.log(max(1.0, start[1])))]
    low, high = [-inf, 0.0, 0.0], [inf, MOST_KAPPA, float(np.log(MOST_PHI))]
    first = [min(max(each, least), most) for each, least, most in zip(first, low, high, strict=True)]
    found = least_squares(residuals, first[:count], bounds=(low[:count], high[:count]), x_scale="jac")
    return _Found(float(found.x[1]), phi_of(found.x), float(found.cost))


def _intervals(known: _Known, seed: NDArray[np.int64], best: _Found) -> tuple[Floats, Floats]:
    """Low and high ends of (kappa, phi) over resampled seeds, each with all its jobs; searched from the best."""
    seeds = np.unique(seed)
    if len(seeds) < 2:
        return np.full(2, nan), np.full(2, nan)
    from scipy.stats import bootstrap

    rows = {each: np.flatnonzero(seed == each) for each in seeds}

    def statistic(drawn: NDArray[np.int64]) -> Floats:
        found = _best(known.of(np.concatenate([rows[each] for each in drawn])), best[:2])
        return np.array(found[:2])

    ends = bootstrap(
        (seeds,),
        statistic,
        vectorized=False,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return np.asarray(ends.low), np.asarray(ends.high)
