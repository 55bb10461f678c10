"""Which workers take part in a gate's rounds, have lost their work, or wait to enter (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final


@final
class Roster:
    """``members`` are counted; ``lost_work`` are those of them whose Compute died with their process.

    ``newcomers`` wait to enter with the next update, which may take long, or never come: see ``deserted``.
    """

    def __init__(self, workers: Iterable[int]) -> None:
        self.members = set(workers)
        self.lost_work: set[int] = set()
        self.newcomers: set[int] = set()

    def all(self) -> tuple[int, ...]:
        """All members, by rank."""
        return tuple(sorted(self.members))

    @property
    def deserted(self) -> bool:
        """Whether only newcomers are left, so that there will be no update to enter with."""
        return bool(self.newcomers) and not self.members

    def leave(self, worker: int) -> None:
        """Remove the worker: it is not waited for any more."""
        for crowd in (self.members, self.lost_work, self.newcomers):
            crowd.discard(worker)

    def admits(self, worker: int) -> bool:
        """Whether a worker that joins computes now: one that repeats lost work, or the first of all.

        A member that has lost nothing has its order or is waiting already; any other worker is a newcomer.
        """
        if worker not in self.members and self.members:
            self.newcomers.add(worker)
            return False
        if worker in self.members and worker not in self.lost_work:
            return False
        self.members.add(worker)
        self.lost_work.discard(worker)
        return True

    def enter(self) -> set[int]:
        """Make the newcomers members, and return them."""
        entered, self.newcomers = self.newcomers, set()
        self.members |= entered
        return entered
