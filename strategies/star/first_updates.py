"""The first updates of x gradients after all workers began together, all x at once (pure).

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
        ticks: iteration times, ascending, [workers]; those who finish together are taken in this order.
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
