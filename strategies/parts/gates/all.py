"""Gate ``all``: one update per round of all members (BSP)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class AllGate:
    """Every member waits for all others. New workers enter with the next round, or at once if no member is left.

    ``missing`` are the members whose gradient of this round has not arrived.
    """

    rounds: ClassVar[bool] = True
    drops: ClassVar[bool] = False

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

    def coming(self) -> AbstractSet[int]:
        return self.missing

    def sum_arrived(self, grad: Grad, workers: Sequence[int]) -> Verdict:
        """Treat the gradients of all these workers as arrived; the sum is one of the update's vectors."""
        self.missing.difference_update(workers)
        return self.arrived(grad)

    def completed(self) -> Sequence[Verdict]:
        return ()

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
        return [sorted(self.roster.members)]

    def _complete(self) -> Verdict:
        """Restarting members get their next order with the others, because a later one would draw other samples."""
        update = by_worker(self.buffer.values())
        self.buffer = {}
        self.roster.enter()
        self.missing = set(self.roster.members)
        return Verdict(apply=update, go=self.roster.all(), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        return {"arrived": len(self.buffer)}
