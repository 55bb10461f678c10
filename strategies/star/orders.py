"""How often x of the workers make an update, and how stale their gradients are, by simulation (pure).

Each worker computes for its own time. The x earliest that have finished make an update and begin again then; the others
keep what they have. Times are whole hundredths of the fastest worker's, so that workers who finish together are taken
by their number, without rounding errors deciding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

TICKS = 100
"""Ticks in the fastest worker's time: times are rounded to 1 % of it."""
MOST_TICKS = 10**8
"""The most ticks that an iteration takes; a slower one counts as this."""
ROUNDS = 30
"""Iterations of every worker, on average, over which is averaged ..."""
LEAST_UPDATES = 200
"""... and updates at least."""
COLD_FRAC = 0.25
"""The part of the updates that is left out at the beginning: all workers begin together, which does not last."""

Interval = tuple[float, float]
"""Mean time between updates, and mean square of the staleness of their gradients."""
Simulation = tuple[float, float, float]
"""The same of one x in ticks, and its lag."""


def order_intervals(times_s: Sequence[float], sizes: Sequence[int]) -> list[Interval]:
    """(seconds between updates, mean squared staleness in updates) of an update of any x gradients, for each x.

    Exact for x = 1 and for all workers; for the others averages of a finite simulation, held within what is
    true of any times: seconds grow with x, and x gradients take at least x times as long as one.

    Args:
        times_s: iteration times of the workers, above zero.
        sizes: values of x in ascending order, from 1 to the number of workers.
    """
    fastest_s, count = min(times_s), len(times_s)
    found = _between(times_s, sizes)
    single, longest_s = single_interval(times_s), max(times_s)
    intervals, least_s = list[Interval](), 0.0
    for x in sizes:
        if x == count:
            intervals.append((longest_s, 0.0))
        elif x == 1:
            intervals.append(single)
        else:
            update_ticks, sqr_staleness, _ = found[x]
            least_s = max(least_s, x * single[0], update_ticks * fastest_s / TICKS)
            intervals.append((min(least_s, longest_s), sqr_staleness))
    return intervals


def order_lags(times_s: Sequence[float], sizes: Sequence[int]) -> list[float]:
    """The lag of updates of any x gradients, for each x (arguments as in :func:`order_intervals`).

    The staleness of a gradient is counted in global batches: updates of x of N workers are x / N of one each. If that
    is s, the gradient is worth 1 / (1 + s) of a fresh one (the weight that staleness-aware methods give it), and the
    lag is the mean of what is missing, s / (1 + s): from 0 to 1, and little for a few gradients that are very stale.
    """
    found = _between(times_s, sizes)
    single = [[worker] for worker in range(len(times_s))]
    return [group_lag(times_s, single) if x == 1 < len(times_s) else found[x][2] if x in found else 0.0 for x in sizes]


def group_lag(times_s: Sequence[float], groups: Sequence[Sequence[int]]) -> float:
    """The lag where every group of workers, given by their indices, makes updates of its own (dynamic x-order).

    The mean is over updates, not over gradients: with momentum each update enters the velocity alike, however few
    gradients it has. Groups of one have the lag of updates of one gradient.
    """
    longest_s = np.array([max(times_s[worker] for worker in group) for group in groups])
    share = np.array([len(group) for group in groups]) / sum(len(group) for group in groups)
    staleness = longest_s * (share / longest_s).sum() - share
    rates = 1.0 / longest_s
    return float((rates * staleness / (1.0 + staleness)).sum() / rates.sum())


def _between(times_s: Sequence[float], sizes: Sequence[int]) -> dict[int, Simulation]:
    """Simulations of every x between a single gradient and the gradients of all workers."""
    fastest_s, count = min(times_s), len(times_s)
    ticks = tuple(sorted(min(MOST_TICKS, round(TICKS * time_s / fastest_s)) for time_s in times_s))
    between = tuple(x for x in sizes if 1 < x < count)
    return dict(zip(between, simulate(ticks, between), strict=True))


def single_interval(times_s: Sequence[float]) -> Interval:
    """The same where every gradient is an update (asynchronous): known without a simulation.

    During an iteration of t seconds a worker that takes s makes t / s updates on average: one of the two whole
    numbers next to it, at a phase that is as good as random.
    """
    times = np.asarray(times_s, dtype=float)
    ratios = times[:, None] / times[None, :]
    np.fill_diagonal(ratios, 0.0)
    odd = ratios - np.floor(ratios)
    sqr_staleness = ratios.sum(axis=1) ** 2 + (odd * (1 - odd)).sum(axis=1)
    rates = 1.0 / times
    return float(1.0 / rates.sum()), float((rates * sqr_staleness).sum() / rates.sum())


@lru_cache(maxsize=1024)
def simulate(ticks: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Simulation, ...]:
    """(ticks between updates, mean squared staleness, lag) for each x of ``sizes``, which ascend.

    All x are simulated side by side, an update of each at a time; small x need more updates, and continue alone.
    """
    if not sizes:
        return ()
    count = len(ticks)
    bits = count.bit_length()  # a key is a time and, in its last bits, the worker's number: all keys differ
    own = (np.array(ticks, dtype=np.int64) << bits) + np.arange(count)
    x = np.array(sizes)
    lengths = np.maximum(LEAST_UPDATES, np.ceil(ROUNDS * count / x)).astype(int)
    updates, rows = int(lengths[0]), len(sizes)
    ends = np.zeros((updates, rows), dtype=np.int64)
    taken = np.zeros((updates, rows, count), dtype=bool)
    active = np.tile(own, (rows, 1))
    xth = np.arange(rows), x - 1
    for update in range(updates):
        if update == lengths[rows - 1]:  # the last ones need no more
            rows = int((lengths > update).sum())
            active, xth = active[:rows], (xth[0][:rows], xth[1][:rows])
        ordered = active.copy()
        ordered.sort()
        ends[update, :rows] = last = ordered[xth]
        done = np.less_equal(active, last[:, None], out=taken[update, :rows])
        np.copyto(active, (last & -1 << bits)[:, None] + own, where=done)
    ends >>= bits
    return tuple(
        (_slope(ends[:length, row]), *_staleness(taken[:length, row], sizes[row] / count))
        for row, length in enumerate(lengths.tolist())
    )


def _slope(ends: NDArray[np.int64]) -> float:
    """Ticks per update: the least-squares line through the ends, which depends little on where it is cut off."""
    warm = ends[int(COLD_FRAC * len(ends)) :].astype(float)
    place = np.arange(len(warm)) - (len(warm) - 1) / 2
    return float(place @ warm / (place @ place))


def _staleness(taken: NDArray[np.bool_], share: float) -> tuple[float, float]:
    """Mean square and lag, from the updates between two of the same worker; both weighted by its rate.

    ``taken[update, worker]``: whether the update has a gradient of the worker; ``share``: an update's of the batch.
    """
    place = np.flatnonzero(taken.T)  # worker by worker, and of each in order
    late = np.flatnonzero(np.diff(place) > 1)
    owner = place[late] // len(taken)
    same = place[late + 1] // len(taken) == owner
    late, owner = late[same], owner[same]
    staleness = place[late + 1] - place[late] - 1.0  # otherwise 0
    count = taken.sum(axis=0) - 1
    known = count > 0
    batches = share * staleness
    weights = staleness, staleness**2, batches / (1.0 + batches)
    total, *sums = (np.bincount(owner, each, len(count))[known] for each in weights)
    rate = count[known] / (count[known] + total)  # of updates that have a gradient of this worker
    sqr, lag = (float((rate * each / count[known]).sum() / rate.sum()) for each in sums)
    return sqr, lag
