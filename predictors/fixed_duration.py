"""Stragglers by a fixed duration: workers that have been slow for long enough."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import ClassVar, final

from predictors.stragglers import STRAGGLER_FRAC, Observation
from reading.ranges import NonNegativeFloat, PositiveFloat, check_settings


@final
class SlowFor:
    """Flags a worker whose iterations were all slow for at least ``duration_s`` seconds.

    Sync-Switch's detector as STAR describes it (section V-A; its own code is not public). A worker is slow if its
    latest time is more than ``tolerance_frac`` above the smallest latest time of all workers. One fast iteration clears
    the flag.
    """

    def __init__(self, tolerance_frac: float, duration_s: float) -> None:
        self.tolerance_frac, self.duration_s = tolerance_frac, duration_s
        self.latest_s: dict[int, float] = {}
        self.slow_since_s: dict[int, float] = {}
        self.flagged: set[int] = set()
        self._fastest_s: float | None = None

    def observe_duration(self, t: float, worker: int, seconds: float) -> None:
        """Record that the worker finished an iteration of ``seconds`` (above zero) at time ``t``."""
        before_s, self.latest_s[worker] = self.latest_s.get(worker), seconds
        fastest_s = self._fastest_s
        if fastest_s is None or (seconds > fastest_s and before_s == fastest_s):  # the fastest one became slower
            fastest_s = min(self.latest_s.values())
        self._fastest_s = fastest_s = min(fastest_s, seconds)
        self.observe_deviation(t, worker, (seconds - fastest_s) / fastest_s)

    def observe_deviation(self, t: float, worker: int, deviation_frac: float) -> None:
        """Record that at ``t`` the worker was slower than the fastest by ``deviation_frac`` of the fastest time."""
        if deviation_frac <= self.tolerance_frac:
            self._clear(worker)
        elif t - self.slow_since_s.setdefault(worker, t) >= self.duration_s:
            self.flagged.add(worker)

    def forget(self, worker: int) -> None:
        """Discard what is known of the worker; its next process is measured from scratch."""
        if self.latest_s.pop(worker, None) == self._fastest_s:
            self._fastest_s = None
        self._clear(worker)

    def keep_only(self, workers: Container[int]) -> None:
        """Discard all workers except these."""
        for worker in [worker for worker in self.latest_s if worker not in workers]:
            self.forget(worker)

    def _clear(self, worker: int) -> None:
        self.slow_since_s.pop(worker, None)
        self.flagged.discard(worker)


@final
@dataclass(kw_only=True)
class FixedDuration:
    """Predicts that a worker that was slow for ``duration_s`` (:class:`SlowFor`) stays slow until it is observed fast.

    Source: STAR (section V-A) on Sync-Switch, with 5 s. By STAR's introduction, existing systems work so.

    Attributes:
        tolerance_frac: a worker is slow if its latest time exceeds the fastest worker's by more than this part of it.
        duration_s: seconds between the first and the last of two or more slow iterations in a row.
    """

    reads_time: ClassVar[bool] = False
    tolerance_frac: NonNegativeFloat = STRAGGLER_FRAC
    duration_s: PositiveFloat = 5.0

    def __post_init__(self) -> None:
        check_settings(self)
        self._slow = SlowFor(self.tolerance_frac, self.duration_s)

    def update(self, observation: Observation) -> None:
        """Compare it with every worker's latest iteration."""
        self._slow.observe_duration(observation.t, observation.worker, observation.iter_s)

    def forget(self, worker: int) -> None:
        self._slow.forget(worker)

    def tags(self, t: float) -> frozenset[int]:
        return frozenset(self._slow.flagged)
