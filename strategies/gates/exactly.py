"""Gate ``exactly(x)``: every x gradients that arrive form an update, late ones included (STAR's static-x-order)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.protocol import Grad


@final
class ExactlyGate:
    """Who has delivered waits for the update that its gradient is part of; nothing is ever dropped.

    With fewer gradients waiting or under way than x, all of those suffice. x = N is ``AllGate``, x = 1 ``EachGate``.
    """

    def __init__(self, workers: Iterable[int], num_per_update: int) -> None:
        self.members = set(workers)
        self.num_per_update = num_per_update
        self.computing = set(self.members)
        self.lost_work: set[int] = set()
        self.buffer: list[Grad] = []

    def begin(self) -> tuple[int, ...]:
        """All workers."""
        return tuple(sorted(self.members))

    def arrived(self, grad: Grad) -> Verdict:
        """Buffer it; the x-th makes the update."""
        self.computing.discard(grad.worker)
        self.buffer.append(grad)
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """A worker that restarts can still deliver; without one that left fewer may have to suffice."""
        if restarting:
            self.lost_work |= self.computing & {worker}
            return NOTHING
        for crowd in (self.members, self.computing, self.lost_work):
            crowd.discard(worker)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A new worker computes at once; a returning one what it lost, if anything."""
        if worker in self.members and worker not in self.lost_work:
            return NOTHING
        self.members.add(worker)
        self.computing.add(worker)
        self.lost_work.discard(worker)
        return Verdict(go=(worker,))

    def _test(self) -> Verdict:
        """Every event brings the buffer nearer to what is needed by one at most, so an update always takes it all."""
        needed = min(self.num_per_update, len(self.buffer) + len(self.computing))
        if not self.buffer or len(self.buffer) < needed:
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        go = self.members & {grad.worker for grad in update} - self.computing
        self.computing |= go
        return Verdict(apply=update, go=tuple(sorted(go)))

    def log_state(self) -> dict[str, float | int | str]:
        """How many wait for the update."""
        return {"arrived": len(self.buffer)}
