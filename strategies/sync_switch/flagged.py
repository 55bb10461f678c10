"""Sync-Switch's straggler detection: workers that have been slow for some seconds (STAR, section V-A; pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import median_low
from typing import Annotated, final

from predictors.fixed_duration import SlowFor
from reading.ranges import Checked, NonNegativeFloat, NonNegativeInt, OneOf
from strategies.parts.monitoring.base import Warmup
from strategies.protocol import AnyEvent, Arrived, Lost, NodeId, Restored, Started


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
        ordered = sorted([one for _, one in times])
        self.median_s[worker] = ordered[(len(ordered) - 1) // 2]
        usual_s = median_low(self.median_s.values())
        long_enough = len(times) > 1 and t - times[0][0] >= self.duration_s
        if long_enough and ordered[0] > usual_s * (1 + self.tolerance_frac):
            self.flagged.add(worker)
        elif self.median_s[worker] <= usual_s * (1 + self.tolerance_frac / 2):
            self.flagged.discard(worker)

    def not_worth_waiting_for(self) -> set[int]:
        """Flagged workers without which a round of the others has a higher throughput.

        With equal batches, a round of n workers whose slowest takes T has throughput n / T: of four workers, one that
        takes 1.25 times as long is still worth waiting for.
        """
        if not self.flagged:
            return set()
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


@dataclass(kw_only=True)
class FlagSettings:
    """Which workers are stragglers.

    Attributes:
        duration_s: seconds for which a worker must have been slow.
        tolerance_frac: part of the fastest worker's time (``median``: of the median worker's) by which a slow worker
            takes longer.
        judge: ``published`` (:class:`predictors.fixed_duration.SlowFor`), or ``median``
            (:class:`strategies.sync_switch.flagged.SlowLately`), which noise alone does not trigger.
        warmup_iters: first iterations of a process that are ignored.
    """

    duration_s: NonNegativeFloat = 5.0
    tolerance_frac: NonNegativeFloat = 0.2
    judge: Annotated[str, OneOf("published", "median")] = "published"
    warmup_iters: NonNegativeInt = 3


@final
@dataclass(kw_only=True)
class FlagDetector(Checked, FlagSettings):
    """Flags workers whose own times, link included, have been too long for ``duration_s``.

    ``flagged`` and ``left_out`` (stragglers that cost more waiting than they contribute) are sets that are updated in
    place, so that others can keep references. The loss of a process clears its worker's flag, unless it is among the
    ``restarted``, a set of the nodes that a schedule restarts on purpose.
    """

    def start(self, started: Started) -> None:
        self.restarted: AbstractSet[NodeId] = frozenset()
        rule = SlowFor if self.judge == "published" else SlowLately
        self._warmup, self._slow = Warmup(self.warmup_iters), rule(self.tolerance_frac, self.duration_s)
        self.flagged: AbstractSet[int] = self._slow.flagged
        self.left_out: set[int] = self._slow.flagged if isinstance(self._slow, SlowFor) else set()

    def observe_event(self, event: AnyEvent) -> None:
        match event:
            case Arrived(grad=grad) if self._warmup.tells(event):
                self._slow.observe_duration(event.t, grad.worker, event.timings.own_s)
            case Lost(worker=worker) if event.restarting or NodeId.worker(worker) not in self.restarted:
                self._slow.forget(worker)
            case Restored():
                self._slow.keep_only(event.workers)
            case _:
                return
        if isinstance(self._slow, SlowLately):
            self.left_out.clear()
            self.left_out.update(self._slow.not_worth_waiting_for())

    def log_state(self) -> dict[str, float | int | str]:
        return {"flagged": len(self.flagged)}
