"""How often x of the workers make an update if their iterations were regular: in closed form, all x at once (pure).

Two readings of the same thing, of which :mod:`strategies.modes.orders` is the exact one, by simulation:

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
    """By x: interval of updates, as a part of the slowest worker's time, and mean squared staleness; float [sizes]."""

    interval: Floats
    sqr_staleness: Floats


def in_step(times: Floats, sizes: Floats) -> Regular:
    """Where all workers begin with an update; ``times`` are parts of the slowest one's, float [workers]."""
    tried = np.unique(times / DIVISORS[:, None])
    gradients = gradients_per_update(times, tried)
    found = tried[np.minimum(np.searchsorted(gradients, sizes * (1.0 - SLACK)), len(tried) - 1)]
    single = 1.0 / (1.0 / times).sum()
    interval = np.minimum(np.maximum(found, sizes * single), 1.0)
    periods = np.ceil(times / interval[:, None] * (1.0 - SLACK))
    return Regular(interval, mean_square(periods))


def out_of_step(times: Floats, sizes: Floats) -> Regular:
    """Where workers wait for half an interval; ``times`` are parts of the slowest one's, float [workers]."""
    single = 1.0 / (1.0 / times).sum()
    tried = single * (1.0 / single) ** GRID
    gradients = (tried[:, None] / (times + 0.5 * tried[:, None])).sum(axis=1)
    interval = np.minimum(np.exp(np.interp(sizes, gradients, np.log(tried))), 1.0)
    return Regular(interval, mean_square(times / interval[:, None] + 0.5))


def gradients_per_update(times: Floats, intervals: Floats) -> Floats:
    """Of updates in step at these intervals: grows with the interval; float, as ``intervals``."""
    found: Floats = (1.0 / np.ceil(times / intervals[..., None] * (1.0 - SLACK))).sum(axis=-1)
    return found


def mean_square(periods: Floats) -> Floats:
    """Of the staleness of gradients of workers that take so many updates each; float [sizes, workers] to [sizes]."""
    rates = 1.0 / periods
    staleness = np.maximum(periods - 1.0, 0.0)
    found: Floats = (rates * staleness**2).sum(axis=1) / rates.sum(axis=1)
    return found
