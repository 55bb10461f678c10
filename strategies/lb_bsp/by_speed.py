"""LB-BSP on processors: batches in proportion to predicted speeds; no worker is left with too few (SoCC 2020; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.lb_bsp.bounded import BoundedLoad
from strategies.lb_bsp.forecast import Forecast
from strategies.parts.hooks import Peers
from strategies.parts.load.allocation import extremes, relax, size_of, split_min_max
from strategies.protocol import Started

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
        """Lower bounds for a round of ``total`` samples, given the ``sizes`` by speed and the last round's sizes.

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


@final
@dataclass(kw_only=True)
class SpeedLoad(BoundedLoad):
    """Splits so that the slowest worker of the next round finishes earliest, by the speeds of a :class:`Forecast`.

    The split is the exact integer one instead of rounded shares, and a worker that rounding would keep early gets one
    more sample. When members leave or join, sizes again sum to the global batch, beyond the bounds if necessary.
    """

    looks_at: ClassVar[tuple[type, ...]] = (Forecast,)
    needs_rounds: ClassVar[bool] = False

    def meet(self, peers: Peers) -> None:
        self._forecast = peers.one(Forecast)

    def start(self, started: Started) -> None:
        self._begin(started)
        self._regaining = Regaining()

    def resize(self, workers: tuple[int, ...]) -> None:
        """Sizes in proportion to speeds, and one more sample for a worker that rounding would keep early."""
        total, lows, highs = self._bounds(len(workers))
        speeds = self._forecast.speeds(workers)
        before = [size_of(self._sizes, worker) for worker in workers]
        sizes = split_min_max(total, speeds, lows, highs)
        least = self._regaining.lows(total, workers, speeds, before, sizes, lows)
        if least != lows:
            sizes = split_min_max(total, speeds, *relax(total, least, highs))
        self._sizes.update(zip(workers, sizes, strict=True))
        self._extremes = extremes(self._sizes, workers)

    def log_state(self) -> dict[str, float | int | str]:
        return {**self._extremes}
