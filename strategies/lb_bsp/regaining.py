"""Extra samples for workers that shares in proportion to speed would leave with too few forever (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

EARLY = 0.95
"""Fraction of the balanced finishing time: a worker that finishes earlier has room for a sample."""
MOST_ROUNDS = 64
"""Rounds between two tries of a worker, at first."""


@final
class Regaining:
    """One more sample for a worker that is early with less than an even share, and gets none by rounding.

    The fixed cost of an iteration makes few samples look slow: where one takes 21 ms and eight take 30, one has a sixth
    of the speed, which rounds to one sample again, so a worker that was slow once would keep it forever. A try that
    failed, because the sample made the worker late, is repeated after twice as many rounds.
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
        """Lower bounds for a round of ``total`` samples, given the ``sizes`` by speed and those of the last round.

        ``speeds`` are in samples per second, as measured with the earlier sizes.
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
