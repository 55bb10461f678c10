"""Gate ``all``: one update per round of all members (BSP)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.protocol import Grad


@final
class AllGate:
    """Everybody waits for everybody. New workers enter with the next round, or at once when nobody else is left.

    ``missing`` are the members whose gradient of this round is not here yet, ``lost_work`` those of
    them whose Compute died with their process.
    """

    def __init__(self, workers: Iterable[int]) -> None:
        self.members = set(workers)
        self.missing = set(self.members)
        self.lost_work: set[int] = set()
        self.newcomers: set[int] = set()
        self.buffer: dict[int, Grad] = {}

    def begin(self) -> tuple[int, ...]:
        """All members."""
        return tuple(sorted(self.members))

    def arrived(self, grad: Grad) -> Verdict:
        """Buffer it; the last one completes the round."""
        self.buffer[grad.worker] = grad
        self.missing.discard(grad.worker)
        return NOTHING if self.missing else self._complete()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Wait for a worker that restarts, go on without one that left."""
        if restarting:
            self.lost_work |= self.missing & {worker}
            return NOTHING
        for crowd in (self.members, self.missing, self.lost_work, self.newcomers):
            crowd.discard(worker)
        return self._complete() if not self.missing and (self.buffer or self.newcomers) else NOTHING

    def joined(self, worker: int) -> Verdict:
        """A returning member computes again what it lost; if it lost nothing, it has its order or waits already."""
        if worker not in self.members and self.members:
            self.newcomers.add(worker)
            return NOTHING
        if worker in self.members and worker not in self.lost_work:
            return NOTHING
        opens = not self.members
        self.members.add(worker)
        self.missing.add(worker)
        self.lost_work.discard(worker)
        return Verdict(go=(worker,), opens=opens)

    def _complete(self) -> Verdict:
        """Members that are restarting get their next order with the others, or they would draw other samples."""
        update = by_worker(self.buffer.values())
        self.buffer = {}
        self.members |= self.newcomers
        self.newcomers = set()
        self.missing = set(self.members)
        return Verdict(apply=update, go=tuple(sorted(self.members)), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        """How many of the round are here."""
        return {"arrived": len(self.buffer)}
