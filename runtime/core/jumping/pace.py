"""How fast a job is since the last change: the mean seconds between a worker's gradients (pure).

Only intervals count in which the worker did what it always does: one that waits for data at the end of an epoch, or
gets fewer samples there, tells nothing about the others. The first intervals after a change do not count either, since
jobs that share machines need some rounds until their phases fit each other.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import final

import msgspec

START = 0.5
"""Part of its next iteration that a worker has done when jumps begin: so rounding to whole iterations has no bias."""


class _Series(msgspec.Struct):
    """Intervals between what happens again and again."""

    seen: int = 0
    last_s: float | None = None
    sum_s: float = 0.0
    count: int = 0

    def next(self, at_s: float, *, counts: bool) -> None:
        """It has happened again."""
        self.seen += 1
        if self.last_s is not None and counts:
            self.sum_s += at_s - self.last_s
            self.count += 1
        self.last_s = at_s


@final
class Pace:
    """Of one job; times are seconds of detail, in which jumps do not show.

    Args:
        warm_up: rounds after a change that are not looked at: iterations of every worker.
        rounds: rounds that are needed.
        together: whether a gate keeps the workers together, so that in the long run all are as fast as the slowest;
            then rounds are measured, else the iterations of each.
    """

    def __init__(self, warm_up: int, rounds: int, *, together: bool) -> None:
        self.warm_up, self.rounds, self.together = warm_up, rounds, together
        self.batches: dict[int, int] = {}
        """Assigned samples of every worker, as last seen."""
        self.grads_per_update = 1
        self.credits: dict[int, float] = {}
        """Part of its next iteration that each has done by the reckoning of the jumps; below 0 if they were ahead."""
        self.since_s = 0.0
        self.needed = rounds
        self._of: dict[int, _Series] = {}
        self._all = _Series()
        """Rounds: what all workers have done."""

    def reset(self, workers: Collection[int], since_s: float) -> None:
        """Something has changed: measure again."""
        self._of, self._all = {worker: _Series() for worker in workers}, _Series()
        self.since_s, self.needed = since_s, self.rounds
        self.grads_per_update = 1

    def arrived(self, worker: int, at_s: float, samples: int, assigned: int) -> bool:
        """A gradient has arrived; returns whether its worker gets another number of samples from now on."""
        one = self._of.setdefault(worker, _Series())
        usual = samples == assigned
        one.next(at_s, counts=usual and one.seen > self.warm_up)
        if not usual:
            self._all.last_s = None
        if (
            self.together
            and one.seen > self._all.seen
            and min(each.seen for each in self._of.values()) > self._all.seen
        ):
            self._all.next(at_s, counts=self._all.seen > self.warm_up)
        before, self.batches[worker] = self.batches.get(worker, assigned), assigned
        return before != assigned

    def waits(self, workers: Collection[int]) -> None:
        """These wait for data: the time until their next gradient says nothing."""
        self._all.last_s = None
        for worker in workers:
            if worker in self._of:
                self._of[worker].last_s = None

    def applied(self, num_grads: int) -> None:
        """An update of so many gradients, of which there are fewer only at the end of an epoch."""
        self.grads_per_update = max(self.grads_per_update, num_grads)

    def ask_for_more(self) -> None:
        """It has jumped as far as what is known allows: as many rounds again are needed."""
        self.needed = self.known + self.rounds

    @property
    def known(self) -> int:
        """Rounds that were measured since the last change."""
        if self.together:
            return self._all.count
        return min((one.count for one in self._of.values()), default=0)

    @property
    def settled(self) -> bool:
        """Whether that is enough."""
        return self.known >= self.needed

    @property
    def owed(self) -> float:
        """Samples of which jumps have booked too few so far; below 0: too many."""
        return sum((credit - START) * self.batches.get(worker, 0) for worker, credit in self.credits.items())

    @property
    def periods_s(self) -> dict[int, float]:
        """Seconds from one gradient to the next, by worker, on average."""
        if self.together:
            return dict.fromkeys(sorted(self._of), self._all.sum_s / self._all.count)
        return {worker: one.sum_s / one.count for worker, one in sorted(self._of.items())}
