"""Who has been slow for long enough: a straggler by a fixed duration."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import final

from predictors.checks import check_number
from predictors.stragglers import STRAGGLER_FRAC, Seen


@final
class SlowFor:
    """Flags a worker that was seen slow, and never otherwise, for ``duration_s`` seconds.

    Sync-Switch's detector as STAR describes it (section V-A; its own code is not public). Slow is whose latest time is
    more than ``tolerance_frac`` above the smallest latest time of all; the one time that is not clears the flag.
    """

    def __init__(self, tolerance_frac: float, duration_s: float) -> None:
        self.tolerance_frac, self.duration_s = tolerance_frac, duration_s
        self.latest_s: dict[int, float] = {}
        self.slow_since_s: dict[int, float] = {}
        self.flagged: set[int] = set()

    def took(self, t: float, worker: int, seconds: float) -> None:
        """At time ``t`` the worker has finished an iteration of ``seconds`` (above zero)."""
        self.latest_s[worker] = seconds
        fastest_s = min(self.latest_s.values())
        self.saw(t, worker, (seconds - fastest_s) / fastest_s)

    def saw(self, t: float, worker: int, deviation_frac: float) -> None:
        """At time ``t`` the worker takes longer than the fastest by ``deviation_frac`` of that one's time."""
        if deviation_frac <= self.tolerance_frac:
            self._clear(worker)
        elif t - self.slow_since_s.setdefault(worker, t) >= self.duration_s:
            self.flagged.add(worker)

    def gone(self, worker: int) -> None:
        """Its next process is measured afresh."""
        self.latest_s.pop(worker, None)
        self._clear(worker)

    def only(self, workers: Container[int]) -> None:
        """All others are gone."""
        for worker in [worker for worker in self.latest_s if worker not in workers]:
            self.gone(worker)

    def _clear(self, worker: int) -> None:
        self.slow_since_s.pop(worker, None)
        self.flagged.discard(worker)


@final
@dataclass(kw_only=True)
class FixedDuration:
    """Whoever was slow for ``duration_s`` (:class:`SlowFor`) will be slow, until it is seen not to be.

    Source: STAR (section V-A) on Sync-Switch, with 5 s; by its introduction that is what existing systems do.

    Attributes:
        tolerance_frac: part of the fastest worker's latest time by which one takes longer that is slow.
        duration_s: seconds between the first and the last of two or more slow iterations in a row.
    """

    tolerance_frac: float = STRAGGLER_FRAC
    duration_s: float = 5.0

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number("tolerance_frac", self.tolerance_frac, least=0.0)
        check_number("duration_s", self.duration_s, above=0.0)
        self._slow = SlowFor(self.tolerance_frac, self.duration_s)

    def update(self, seen: Seen) -> None:
        """Compare it with everybody's latest."""
        self._slow.took(seen.t, seen.worker, seen.iter_s)

    def gone(self, worker: int) -> None:
        """Forget it."""
        self._slow.gone(worker)

    def tags(self, t: float) -> frozenset[int]:
        """Those that are flagged."""
        return frozenset(self._slow.flagged)
