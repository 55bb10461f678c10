"""Recent times of every worker's own part of an iteration, its link included (pure)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import final

from strategies.parts.checks import NonNegativeInt, PositiveFloat, check_settings
from strategies.parts.monitoring.warmup import Warmup
from strategies.protocol import AnyEvent, Arrived, Lost, Started


@final
@dataclass
class OwnTimes:
    """Own times (:attr:`strategies.protocol.Timings.own_s`) of the last ``window_s`` seconds, by worker.

    Whole batches only, without the first ``warmup_iters`` of a process. Where iterations take longer than the window it
    holds the newest one.

    Attributes:
        window_s: seconds over which times are averaged.
        warmup_iters: first iterations of a process that are ignored.
    """

    window_s: PositiveFloat = 6.0
    warmup_iters: NonNegativeInt = 3

    def __post_init__(self) -> None:
        check_settings(self)
        self._forget()

    def _forget(self) -> None:
        self._warmup = Warmup(self.warmup_iters)
        self._records: dict[int, deque[tuple[float, float]]] = {}

    def start(self, started: Started) -> None:
        self._forget()

    def observe_event(self, event: AnyEvent) -> None:
        """Collect times, and forget workers whose process is lost."""
        if isinstance(event, Arrived):
            self.arrived(event)
        elif isinstance(event, Lost):
            self.forget(event.worker)

    def arrived(self, event: Arrived) -> bool:
        """Record a gradient's time; returns whether it was usable."""
        if not self._warmup.tells(event):
            return False
        records = self._records.setdefault(event.grad.worker, deque())
        records.append((event.t, event.timings.own_s))
        while records[0][0] < event.t - self.window_s:
            records.popleft()
        return True

    def forget(self, worker: int) -> None:
        """Discard the worker's times: its next process is measured from scratch."""
        self._records.pop(worker, None)

    def expected_s(self, worker: int, t: float) -> float | None:
        """Expected seconds of the next iteration: the mean of the window at ``t``; None if it is empty."""
        recent = [seconds for at_s, seconds in self._records.get(worker, ()) if at_s >= t - self.window_s]
        return sum(recent) / len(recent) if recent else None
