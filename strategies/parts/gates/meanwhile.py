"""The common part of gates whose updates take some workers while others compute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from strategies.parts.gates.base import NOTHING, Roster, Verdict


class MeanwhileGate(ABC):
    """Abstract: a subclass has ``begin``, ``arrived`` and :meth:`_test`, and sets these attributes.

    New workers enter with the next update.

    Attributes:
        roster: the members.
        waiting: members that wait for the next update.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False
    sums_meanwhile: ClassVar[bool] = True

    roster: Roster
    waiting: set[int]

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Without servers a loss voids everything until all begin again, unless the worker had not entered yet."""
        if not self.roster.lose(worker, restarting, self.roster.members - self.waiting):
            return NOTHING
        self.waiting.discard(worker)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member repeats the work that it lost; a new one enters with the next update."""
        return Verdict(go=(worker,)) if self.roster.admits(worker) else NOTHING

    def _release(self) -> tuple[int, ...]:
        """All that wait, and the newcomers: they go on after an update."""
        go = (self.waiting | self.roster.enter()) & self.roster.members
        self.waiting = set()
        return tuple(sorted(go))

    @abstractmethod
    def _test(self) -> Verdict:
        """The update, if it is time."""
