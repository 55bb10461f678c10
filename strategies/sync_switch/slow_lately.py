"""Workers that have been slow for some time, by medians, which noise alone does not trigger (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from statistics import median_low
from typing import final


@final
class SlowLately:
    """Flags workers all of whose times of the last ``duration_s`` seconds were longer than usual.

    The usual time is the lower median over all workers of their median time in that window; a slow time exceeds it by
    more than ``tolerance_frac`` of it. The flag is cleared when the worker's median exceeds it by at most half of that;
    the two newest times are always used, and the shorter of two is their median. In contrast to the rule that STAR
    describes (:class:`predictors.fixed_duration.SlowFor`: latest times against the smallest latest of all, cleared by
    one that is not slow), neither a lucky fastest worker nor a single time decides.
    """

    def __init__(self, tolerance_frac: float, duration_s: float) -> None:
        self.tolerance_frac, self.duration_s = tolerance_frac, duration_s
        self.median_s: dict[int, float] = {}
        self.flagged: set[int] = set()
        self._times: dict[int, deque[tuple[float, float]]] = {}

    def observe_duration(self, t: float, worker: int, seconds: float) -> None:
        """Record that the worker finished an iteration of ``seconds`` (above zero) at time ``t``."""
        times = self._times.setdefault(worker, deque())
        times.append((t, seconds))
        while len(times) > 2 and times[1][0] <= t - self.duration_s:
            times.popleft()
        self.median_s[worker] = median_low(one for _, one in times)
        usual_s = median_low(self.median_s.values())
        long_enough = len(times) > 1 and t - times[0][0] >= self.duration_s
        if long_enough and min(one for _, one in times) > usual_s * (1 + self.tolerance_frac):
            self.flagged.add(worker)
        elif self.median_s[worker] <= usual_s * (1 + self.tolerance_frac / 2):
            self.flagged.discard(worker)

    def not_worth_waiting_for(self) -> set[int]:
        """Flagged workers without which a round of the others has a higher throughput.

        With equal batches, a round of n workers whose slowest takes T has throughput n / T: of four workers, one that
        takes 1.25 times as long is still worth waiting for.
        """
        workers = sorted(self.median_s, key=lambda worker: (worker in self.flagged, self.median_s[worker], worker))
        rates, longest_s = [], 0.0
        for number, worker in enumerate(workers, start=1):
            longest_s = max(longest_s, self.median_s[worker])
            rates.append(number / longest_s)
        fewest = max(1, len(workers) - len(self.flagged))
        best = max(range(fewest, len(workers) + 1), key=lambda number: (rates[number - 1], number), default=0)
        return set(workers[best:])

    def forget(self, worker: int) -> None:
        """Discard the worker's times and flag: its next process is measured from scratch."""
        self._times.pop(worker, None)
        self.median_s.pop(worker, None)
        self.flagged.discard(worker)

    def keep_only(self, workers: Container[int]) -> None:
        """Forget all workers but these."""
        for worker in [worker for worker in self._times if worker not in workers]:
            self.forget(worker)
