"""Gate ``all``: one update per round of all members (BSP)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.gates.roster import Roster
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class AllGate:
    """Everybody waits for everybody. New workers enter with the next round, or at once when nobody else is left.

    ``missing`` are the members whose gradient of this round is not here yet.
    """

    rounds: ClassVar[bool] = True
    drops: ClassVar[bool] = False
    bound: ClassVar[int] = 0

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster = Roster(workers)
        self.missing = set(self.roster.members)
        self.buffer: dict[int, Grad] = {}
        return self.roster.all()

    def arrived(self, grad: Grad) -> Verdict:
        """Buffer it; the last one completes the round."""
        self.buffer[grad.worker] = grad
        self.missing.discard(grad.worker)
        return NOTHING if self.missing else self._complete()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Wait for a worker that restarts, go on without one that left."""
        if restarting:
            self.roster.lost_work |= self.missing & {worker}
            return NOTHING
        self.roster.leave(worker)
        self.missing.discard(worker)
        return self._complete() if not self.missing and (self.buffer or self.roster.deserted) else NOTHING

    def joined(self, worker: int) -> Verdict:
        """A returning member computes again what it lost; if it lost nothing, it has its order or waits already."""
        opens = not self.roster.members
        if not self.roster.admits(worker):
            return NOTHING
        self.missing.add(worker)
        return Verdict(go=(worker,), opens=opens)

    def _complete(self) -> Verdict:
        """Members that are restarting get their next order with the others, or they would draw other samples."""
        update = by_worker(self.buffer.values())
        self.buffer = {}
        self.roster.enter()
        self.missing = set(self.roster.members)
        return Verdict(apply=update, go=self.roster.all(), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        """How many of the round are here."""
        return {"arrived": len(self.buffer)}
