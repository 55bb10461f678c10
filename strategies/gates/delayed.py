"""Gate ``delayed(K)``: the first K fresh gradients make the update, slightly late ones ride along (LGC)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.gates.roll import Roll
from strategies.protocol import Grad


@final
class DelayedGate:
    """A gradient that is at most ``max_delay`` versions old waits for the next update, an older one is dropped.

    Who has delivered waits for the update that its gradient is part of: starting again at once would make its next
    gradient older still. With fewer than K that can still be fresh (workers have left, or compute on old parameters)
    those suffice. ``base`` is the version that every worker computes on, at least.
    """

    def __init__(self, workers: Iterable[int], num_fresh: int, max_delay: int, version: int) -> None:
        self.roll = Roll(workers)
        self.num_fresh, self.max_delay, self.version = num_fresh, max_delay, version
        self.base = dict.fromkeys(self.roll.begin(), version)
        self.buffer: list[Grad] = []

    def begin(self) -> tuple[int, ...]:
        """All workers."""
        return self.roll.begin()

    def arrived(self, grad: Grad) -> Verdict:
        """Too late: drop and recompute. Otherwise buffer, and update when enough fresh ones are here."""
        if grad.samples and self.version - grad.version > self.max_delay:
            self.base[grad.worker] = self.version
            return Verdict(drop=(grad,), go=(grad.worker,))
        self.base.pop(grad.worker, None)
        self.buffer.append(grad)
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """What a restarting worker lost it computes again on newer parameters; one that left is not waited for."""
        if restarting:
            self.roll.lost_work |= self.base.keys() & {worker}
            return NOTHING
        self.base.pop(worker, None)
        self.roll.leave(worker)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member computes if its work was lost; a new one enters with the next update."""
        if not self.roll.admits(worker):
            return NOTHING
        self.base[worker] = self.version
        return Verdict(go=(worker,))

    def _test(self) -> Verdict:
        fresh = sum(not grad.samples or grad.version == self.version for grad in self.buffer)
        coming = sum(base == self.version or worker in self.roll.lost_work for worker, base in self.base.items())
        if fresh < min(self.num_fresh, fresh + coming) or not (self.buffer or self.roll.deserted):
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        self.version += any(grad.samples for grad in update)
        entered = self.roll.enter()
        go = (self.roll.members & {grad.worker for grad in update} | entered) - self.base.keys()
        self.base |= dict.fromkeys(go, self.version)
        return Verdict(apply=update, go=tuple(sorted(go)), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        """How many gradients wait, and how many of them are late."""
        late = sum(bool(grad.samples) and grad.version < self.version for grad in self.buffer)
        return {"fresh": len(self.buffer) - late, "late": late}
