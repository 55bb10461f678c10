"""How often x of the workers make an update if their iterations were regular: in closed form, all x at once (pure).

Two readings of the same thing, of which :mod:`strategies.star.orders` is the exact one, by simulation:

* In step: an update every t seconds at which all workers begin again that have finished. Worker i is part of every
  ceil(T_i / t)-th, and t is the shortest for which an update has x gradients or more.
* Out of step: a worker that has finished waits for half an interval on average, so it is part of one in T_i / t + 1/2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from predictors.history import Floats

DIVISORS = np.arange(1.0, 9.0)
"""Intervals of updates in step that are tried: the workers' times over these."""
GRID = np.linspace(0.0, 1.0, 32)
"""Intervals out of step that are tried: so far from the interval of single gradients to the slowest worker's time."""
SLACK = 1e-9
"""Relative: a time of exactly k intervals is k of them in spite of rounding."""


class Regular(NamedTuple):
    """By x: interval of updates, as a part of the slowest worker's time, and the staleness of gradients; float [sizes].

    ``sqr_staleness``: mean square, in updates. ``lag``: see :func:`strategies.star.orders.order_lags`.
    """

    interval: Floats
    sqr_staleness: Floats
    lag: Floats


def in_step(times: Floats, sizes: Floats) -> Regular:
    """Where all workers begin with an update; ``times`` are parts of the slowest one's, float [workers]."""
    tried = np.unique(times / DIVISORS[:, None])
    gradients = gradients_per_update(times, tried)
    found = tried[np.minimum(np.searchsorted(gradients, sizes * (1.0 - SLACK)), len(tried) - 1)]
    single = 1.0 / (1.0 / times).sum()
    interval = np.minimum(np.maximum(found, sizes * single), 1.0)
    periods = np.ceil(times / interval[:, None] * (1.0 - SLACK))
    return Regular(interval, *staleness_of(periods, sizes / len(times)))


def out_of_step(times: Floats, sizes: Floats) -> Regular:
    """Where workers wait for half an interval; ``times`` are parts of the slowest one's, float [workers]."""
    single = 1.0 / (1.0 / times).sum()
    tried = single * (1.0 / single) ** GRID
    gradients = (tried[:, None] / (times + 0.5 * tried[:, None])).sum(axis=1)
    interval = np.minimum(np.exp(np.interp(sizes, gradients, np.log(tried))), 1.0)
    return Regular(interval, *staleness_of(times / interval[:, None] + 0.5, sizes / len(times)))


def gradients_per_update(times: Floats, intervals: Floats) -> Floats:
    """Of updates in step at these intervals: grows with the interval; float, as ``intervals``."""
    found: Floats = (1.0 / np.ceil(times / intervals[..., None] * (1.0 - SLACK))).sum(axis=-1)
    return found


def staleness_of(periods: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Mean square and lag of the staleness of gradients of workers that take so many updates each; float [sizes].

    ``periods``: float [sizes, workers]; ``shares``: of an update in the global batch, float [sizes].
    """
    rates = 1.0 / periods
    staleness = np.maximum(periods - 1.0, 0.0)
    batches = shares[:, None] * staleness
    means = ((rates * each).sum(axis=1) / rates.sum(axis=1) for each in (staleness**2, batches / (1.0 + batches)))
    sqr, lag = means
    return sqr, lag
