"""A mode that needs more of the hosts is asked for first; one that is refused gives way to the next best (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

from strategies.protocol import Reserve, Reserved
from strategies.star.demands import ModeDemands
from strategies.star.modal import SSGD, Mode


@final
class Reserving:
    """Asks the cluster for the modes of one decision, the best first, until one is granted.

    SSGD needs nothing, so it is never asked for. If all are refused the present mode stays, with what it holds.

    Args:
        t: when was decided.
        modes: those that are better than the present one, the best first.
        mode_s: seconds per unit of progress of all modes.
        present: the mode until now.
        present_s: its seconds.
        updates_per_batch: updates of a global batch that make one unit of progress.
        updated: whether the event that led to the decision made an update.
        ready_s: when the decision is made.
    """

    def __init__(
        self,
        t: float,
        modes: Sequence[Mode],
        mode_s: Mapping[Mode, float],
        present: Mode,
        present_s: float,
        updates_per_batch: float,
        *,
        updated: bool,
        ready_s: float,
    ) -> None:
        self.t, self.updated, self.ready_s, self.present = t, updated, ready_s, present
        self._left, self._mode_s = list(modes), mode_s
        self._present_s, self._updates = present_s, updates_per_batch
        self.mode = self._left.pop(0)
        """The mode that is asked for, or was granted."""
        self.refused: list[str] = []

    def asks(self, demands: ModeDemands, workers: Sequence[int], times_s: Sequence[float]) -> Reserve:
        """The question for the mode whose turn it is."""
        worth_s = (self._present_s - self._mode_s[self.mode]) / self._updates
        return Reserve(demands=demands.of(self.mode, workers, times_s), worth_s=worth_s)

    def answered(self, event: Reserved) -> Mode | None:
        """The mode to take, the present one if all are refused; None: ask for the next."""
        if event.ok:
            return self.mode
        self.refused.append(f"{self.mode} ({event.reason})")
        if not self._left:
            return self.present
        self.mode = self._left.pop(0)
        return SSGD if self.mode == SSGD else None
