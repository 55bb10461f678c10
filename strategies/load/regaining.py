"""Whole samples for workers that shares in proportion to speed would leave with too few for ever (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

EARLY = 0.95
"""Of the time at which all would be done together: who is done before has room for a sample."""
MOST_ROUNDS = 64
"""Between two tries of a worker."""


@final
class Regaining:
    """A sample more for who is early with less than an even share, and gets none by rounding.

    What is fixed of an iteration makes few samples look slow: one that takes 21 ms where eight take 30 has a sixth of
    the speed, which rounds to one sample again, so a worker that was slow once would keep it for ever. A try that did
    not last, because the sample made the worker late, is repeated after twice as many rounds.
    """

    def __init__(self) -> None:
        self._round = 0
        self._tried: dict[int, int] = {}
        self._gap: dict[int, int] = {}
        self._due: dict[int, int] = {}

    def lows(
        self,
        total: int,
        workers: Sequence[int],
        speeds: Sequence[float],
        before: Sequence[int],
        sizes: Sequence[int],
        lows: Sequence[int],
    ) -> list[int]:
        """Lower bounds for a round of ``total`` samples, given the ``sizes`` by speed and those of the round before.

        ``speeds`` are in samples per second, as measured with the sizes of before.
        """
        self._round += 1
        early_s, even = EARLY * total / sum(speeds), total // len(workers)
        least = list(lows)
        for place, worker in enumerate(workers):
            had = before[place]
            stuck = sizes[place] <= had < even and had / speeds[place] < early_s
            if not stuck or self._round < self._due.get(worker, 0):
                continue
            lasted = had >= self._tried.get(worker, 0)
            self._gap[worker] = 1 if lasted else min(2 * self._gap[worker], MOST_ROUNDS)
            self._due[worker] = self._round + self._gap[worker]
            self._tried[worker] = least[place] = had + 1
        return least
