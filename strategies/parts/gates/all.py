"""Gate ``all``: one update per round of all members (BSP)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.parts.gates.round import RoundGate
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class AllGate(RoundGate):
    """Every member waits for all others; ``missing`` are those whose gradient of this round has not arrived."""

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

    def _complete(self) -> Verdict:
        """Restarting members get their next order with the others, because a later one would draw other samples."""
        update = by_worker(self.buffer.values())
        self.buffer = {}
        self.roster.enter()
        self.missing = set(self.roster.members)
        return Verdict(apply=update, go=self.roster.all(), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        return {"arrived": len(self.buffer)}
