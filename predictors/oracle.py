"""The oracle reads the disturbance plan: the upper bound of what can be predicted."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, nextafter
from typing import NamedTuple, final

from predictors.stragglers import Observation

EARLY_S = 1e-9
"""An answer is looked at again so long before it changes, because differences of times are rounded."""


class PlannedWindow(NamedTuple):
    """A window [start_s, end_s) in which a worker is to be disturbed.

    ``slept``: the worker sleeps in iterations that begin in the window (a delay); otherwise everything that happens in
    the window takes longer.
    """

    worker: int
    start_s: float
    end_s: float
    slept: bool


@final
@dataclass(kw_only=True)
class Oracle:
    """Tags the workers that the plan will disturb in an iteration that begins now.

    No strategy can have this: it bounds what predictions are worth, and checks the scores. It is exact for delays.
    Windows of the other kinds may open while the iteration is in progress, so the iteration is assumed to last as long
    as the worker's shortest one so far.

    Attributes:
        windows: the planned windows of all workers.
    """

    windows: Sequence[PlannedWindow]

    def __post_init__(self) -> None:
        """Sort the plan by worker and start; raises ``ValueError`` for an empty window."""
        self._windows: dict[int, deque[PlannedWindow]] = {}
        for number, window in enumerate(self.windows):
            if not window.start_s < window.end_s:
                raise ValueError(f"windows[{number}]: end_s={window.end_s} must be later than start_s={window.start_s}")
        for window in sorted(self.windows, key=lambda window: window.start_s):
            self._windows.setdefault(window.worker, deque()).append(window)
        self._shortest_s: dict[int, float] = {}
        self._disturbed: frozenset[int] = frozenset()
        self._due: list[tuple[float, int]] = []
        """(time, worker), a heap: most queries change nothing."""
        self._change_s: dict[int, float] = {}
        for worker in self._windows:
            self._ask_again(worker, -inf)

    def update(self, observation: Observation) -> None:
        """Learn how long the worker's iterations last."""
        worker, seconds = observation.worker, observation.iter_s
        if seconds < self._shortest_s.get(worker, inf):
            self._shortest_s[worker] = seconds
            if worker in self._windows:
                self._ask_again(worker, -inf)

    def forget(self, worker: int) -> None:
        """Keep everything: the plan applies to the next process, too."""

    def tags(self, t: float) -> frozenset[int]:
        """Workers that the plan disturbs now, observed or not."""
        while self._due and self._due[0][0] <= t:
            due_s, worker = heappop(self._due)
            if due_s == self._change_s[worker]:  # otherwise it is out of date
                others = self._disturbed - {worker}
                self._disturbed = others | {worker} if self._is_disturbed(worker, t) else others
                self._ask_again(worker, self._next_change_s(worker, t))
        return self._disturbed

    def _ask_again(self, worker: int, at_s: float) -> None:
        self._change_s[worker] = at_s
        heappush(self._due, (at_s, worker))

    def _is_disturbed(self, worker: int, t: float) -> bool:
        windows, until_s = self._windows[worker], t + self._shortest_s.get(worker, 0.0)
        while windows and windows[0].end_s <= t:
            windows.popleft()  # t never decreases
        for window in windows:
            if window.start_s > until_s:
                return False
            if t < window.end_s and (window.start_s <= t or not window.slept):
                return True
        return False

    def _next_change_s(self, worker: int, t: float) -> float:
        """A time after t until which the answer about this worker is the same; infinite: for ever."""
        shortest_s, change_s = self._shortest_s.get(worker, 0.0), inf
        for window in self._windows[worker]:
            for edge_s in (window.start_s - shortest_s, window.start_s, window.end_s):
                if t < edge_s < change_s:
                    change_s = edge_s
            if window.start_s - shortest_s > t:
                break
        return max(nextafter(t, inf), change_s - EARLY_S)
