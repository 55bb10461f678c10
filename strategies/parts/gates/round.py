"""The common part of gates that wait for every member of a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sized
from typing import ClassVar

from strategies.parts.gates.base import NOTHING, Roster, Verdict


class RoundGate(ABC):
    """Abstract: a subclass has ``begin``, ``arrived`` and :meth:`_complete`, and sets these attributes.

    New workers enter with the next round, or at once if no member is left.

    Attributes:
        roster: the members of the round.
        missing: members that the round waits for.
        buffer: the gradients of its update.
        waits_for_all: whether a faster worker waits for the slowest member.
    """

    waits_for_all: ClassVar[bool] = True

    roster: Roster
    missing: set[int]
    buffer: Sized

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Wait for a worker that restarts, continue without one that left."""
        if not self.roster.lose(worker, restarting, self.missing):
            return NOTHING
        self.missing.discard(worker)
        return self._complete() if not self.missing and (self.buffer or self.roster.deserted) else NOTHING

    def joined(self, worker: int) -> Verdict:
        """A returning member repeats the work that it lost; if it lost none, it has its order or is waiting already."""
        opens = not self.roster.members
        if not self.roster.admits(worker):
            return NOTHING
        self.missing.add(worker)
        return Verdict(go=(worker,), opens=opens)

    def waiting_groups(self) -> list[list[int]]:
        return [sorted(self.roster.members)] if self.waits_for_all else []

    @abstractmethod
    def _complete(self) -> Verdict:
        """The update of the round, and the beginning of the next."""
