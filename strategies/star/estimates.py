"""How often x of the workers make an update: in closed form and by the first few updates, all x at once (pure).

Two readings of the same thing, of which :mod:`strategies.star.orders` is the exact one, by simulation:

* In step: an update every t seconds at which all workers begin again that have finished. Worker i is part of every
  ceil(T_i / t)-th, and t is the shortest for which an update has x gradients or more.
* Out of step: a worker that has finished waits for half an interval on average, so it is part of one in T_i / t + 1/2.

A short piece of what :mod:`strategies.star.orders` simulates for hundreds of updates: too short for averages, but a
model that knows it needs to learn less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from predictors.history import Floats

UPDATES, COLD = 12, 4
"""Updates that are followed, and the first of them, which are not counted for staleness."""


class FirstUpdates(NamedTuple):
    """When the updates are made, in ticks, float [updates, sizes]; mean squared staleness, float [sizes]."""

    ends: Floats
    sqr_staleness: Floats


def first_updates(ticks: NDArray[np.int64], sizes: NDArray[np.int64]) -> FirstUpdates:
    """The x earliest finishers make an update and begin again then; the others keep what they have.

    Args:
        ticks: iteration times, ascending, [workers]; workers that finish together are taken in this order.
        sizes: values of x, from 1 to the number of workers.
    """
    count = len(ticks)
    bits = count.bit_length()  # a key is a time and, in its last bits, the worker's place
    own = (ticks << bits) + np.arange(count)
    place = np.arange(len(sizes)) * count + sizes - 1
    keys = np.tile(own, (len(sizes), 1))
    ends = np.empty((UPDATES, len(sizes)), dtype=np.int64)
    taken = np.empty((UPDATES, len(sizes), count), dtype=bool)
    for update in range(UPDATES):
        last = np.sort(keys, axis=1).ravel()[place]
        done = np.less_equal(keys, last[:, None], out=taken[update])
        ends[update] = last >> bits
        np.copyto(keys, (ends[update] << bits)[:, None] + own, where=done)
    number = np.arange(1, UPDATES + 1, dtype=np.int8)[:, None, None]
    begun = np.maximum.accumulate(taken * number, axis=0)[COLD - 1 : -1]
    late = (number[COLD:] - 1 - begun) * taken[COLD:]
    squares = np.einsum("usw,usw->s", late, late, dtype=np.int64, casting="safe")
    return FirstUpdates(ends.astype(float), squares / (sizes * (UPDATES - COLD)))


DIVISORS = np.arange(1.0, 9.0)
"""Intervals of updates in step that are tried: the workers' times over these."""
GRID = np.linspace(0.0, 1.0, 32)
"""Intervals out of step that are tried: so far from the interval of single gradients to the slowest worker's time."""
SLACK = 1e-9
"""Relative: a time of exactly k intervals is k of them in spite of rounding."""


class Regular(NamedTuple):
    """Interval of updates by x, as a part of the slowest worker's time, and staleness of gradients; float [sizes].

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
    """Gradients in an update, in step at these intervals: grows with the interval; float, as ``intervals``."""
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
