"""Who reads the plan of the disturbances: the upper bound of what can be foreseen."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from predictors.stragglers import Seen


class Planned(NamedTuple):
    """A window [start_s, end_s) in which a worker is to be disturbed.

    ``slept``: in iterations that begin in the window (a delay); otherwise whatever happens then takes longer.
    """

    worker: int
    start_s: float
    end_s: float
    slept: bool


@final
@dataclass(kw_only=True)
class Oracle:
    """Tags the workers that the plan will disturb in an iteration that begins now.

    No strategy can have this: it bounds what predictions are worth, and checks the scores. For what is slept it is
    exact. Other windows may open while the iteration is under way; it is taken to last as long as the shortest that the
    worker has had so far.

    Attributes:
        windows: the plan, by worker.
    """

    windows: Sequence[Planned]

    def __post_init__(self) -> None:
        """Sort the plan by worker and start."""
        self._of: dict[int, deque[Planned]] = {}
        for number, window in enumerate(self.windows):
            if not window.start_s < window.end_s:
                raise ValueError(f"windows[{number}]: end_s={window.end_s} must be later than start_s={window.start_s}")
        for window in sorted(self.windows, key=lambda window: window.start_s):
            self._of.setdefault(window.worker, deque()).append(window)
        self._shortest_s: dict[int, float] = {}

    def update(self, seen: Seen) -> None:
        """Only to know how long an iteration lasts."""
        self._shortest_s[seen.worker] = min(seen.iter_s, self._shortest_s.get(seen.worker, seen.iter_s))

    def gone(self, worker: int) -> None:
        """The plan goes on."""

    def tags(self, t: float) -> frozenset[int]:
        """Whom the plan disturbs, whether it was heard of or not."""
        return frozenset(worker for worker in self._of if self._disturbed(worker, t))

    def _disturbed(self, worker: int, t: float) -> bool:
        windows, until_s = self._of[worker], t + self._shortest_s.get(worker, 0.0)
        while windows and windows[0].end_s <= t:
            windows.popleft()  # the time never goes back
        for window in windows:
            if window.start_s > until_s:
                return False
            if t < window.end_s and (window.start_s <= t or not window.slept):
                return True
        return False
