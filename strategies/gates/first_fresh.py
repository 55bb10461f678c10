"""Gate ``first_fresh(K)``: the first K fresh gradients form the update, late ones are dropped (backup workers)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.gates.roll import Roll
from strategies.protocol import Grad


@final
class FirstFreshGate:
    """A gradient is fresh iff it was computed on the version of now. A worker is never interrupted.

    With fewer members than K the gate waits for all of them: a fixed K is how TensorFlow's SyncReplicasOptimizer
    comes to hang.
    """

    def __init__(self, workers: Iterable[int], num_needed: int, version: int) -> None:
        self.roll = Roll(workers)
        self.num_needed = num_needed
        self.version = version
        self.buffer: dict[int, Grad] = {}

    def begin(self) -> tuple[int, ...]:
        """All members, backups included."""
        return self.roll.begin()

    def arrived(self, grad: Grad) -> Verdict:
        """Late: drop and recompute. Fresh: buffer, and update when enough are here."""
        if grad.samples and grad.version < self.version:
            return Verdict(drop=(grad,), go=(grad.worker,))
        self.buffer[grad.worker] = grad
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Keep waiting for a worker that restarts; one that left may complete the round by leaving."""
        if restarting:
            self.roll.lost_work |= self.roll.members & {worker} - self.buffer.keys()
            return NOTHING
        self.roll.leave(worker)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member computes if its work was lost; a new one enters with the next round."""
        return Verdict(go=(worker,)) if self.roll.admits(worker) else NOTHING

    def _test(self) -> Verdict:
        enough = len(self.buffer) >= self.num_needed or self.roll.members <= self.buffer.keys()
        if not enough or not (self.buffer or self.roll.deserted):
            return NOTHING
        update, self.buffer = by_worker(self.buffer.values()), {}
        self.version += any(grad.samples for grad in update)
        go = {grad.worker for grad in update} | self.roll.enter()
        return Verdict(apply=update, go=tuple(sorted(go & self.roll.members)), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        """How many of the needed are here."""
        return {"fresh": len(self.buffer)}
