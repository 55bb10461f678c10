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


class _Worker(msgspec.Struct):
    """One worker since the last change."""

    seen: int = 0
    last_s: float | None = None
    sum_s: float = 0.0
    count: int = 0


@final
class Pace:
    """Of one job; times are seconds of detail, in which jumps do not show.

    Args:
        warm_up: gradients of every worker that are not looked at after a change.
        rounds: intervals of every worker that are needed.
    """

    def __init__(self, warm_up: int, rounds: int) -> None:
        self.warm_up, self.rounds = warm_up, rounds
        self.batches: dict[int, int] = {}
        """Assigned samples of every worker, as last seen."""
        self.grads_per_update = 1
        self.credits: dict[int, float] = {}
        """Part of its next iteration that each has done by the reckoning of the jumps; below 0 if they were ahead."""
        self.since_s = 0.0
        self._of: dict[int, _Worker] = {}

    def reset(self, workers: Collection[int], since_s: float) -> None:
        """Something has changed: measure again."""
        self._of = {worker: _Worker() for worker in workers}
        self.since_s = since_s
        self.grads_per_update = 1

    def arrived(self, worker: int, at_s: float, samples: int, assigned: int) -> bool:
        """A gradient has arrived; returns whether its worker gets another number of samples from now on."""
        one = self._of.get(worker)
        if one is None:
            one = self._of[worker] = _Worker()
        one.seen += 1
        if one.last_s is not None and samples == assigned and one.seen > self.warm_up + 1:
            one.sum_s += at_s - one.last_s
            one.count += 1
        one.last_s = at_s
        before, self.batches[worker] = self.batches.get(worker, assigned), assigned
        return before != assigned

    def waits(self, workers: Collection[int]) -> None:
        """These wait for data: the time until their next gradient says nothing."""
        for worker in workers:
            if worker in self._of:
                self._of[worker].last_s = None

    def applied(self, num_grads: int) -> None:
        """An update of so many gradients, of which there are fewer only at the end of an epoch."""
        self.grads_per_update = max(self.grads_per_update, num_grads)

    @property
    def settled(self) -> bool:
        """Whether enough is known of every worker."""
        return bool(self._of) and min(one.count for one in self._of.values()) >= self.rounds

    @property
    def owed(self) -> float:
        """Samples of which jumps have booked too few so far; below 0: too many."""
        return sum((credit - START) * self.batches.get(worker, 0) for worker, credit in self.credits.items())

    def periods_s(self, together: int | None) -> dict[int, float]:
        """Seconds from one gradient to the next, by worker.

        ``together``: iterations by which workers may be apart, so that in the long run all are as fast as the slowest;
        None: any number.
        """
        means = {worker: one.sum_s / one.count for worker, one in sorted(self._of.items())}
        if together is None:
            return means
        common_s = max(means.values()) if together else sum(means.values()) / len(means)
        return dict.fromkeys(means, common_s)
