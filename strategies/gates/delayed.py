"""Gate ``delayed(K)``: the first K fresh gradients make the update, slightly late ones ride along (LGC)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.protocol import Grad


@final
class DelayedGate:
    """A gradient that is at most ``max_delay`` versions old waits for the next update, an older one is dropped.

    Who has delivered waits for the update that its gradient is part of: starting again at once would make its next
    gradient older still. With fewer than K that can still be fresh (workers have left, or compute on old parameters)
    those suffice. ``base`` is the version that every worker computes on, at least.
    """

    def __init__(self, workers: Iterable[int], num_fresh: int, max_delay: int, version: int) -> None:
        self.members = set(workers)
        self.num_fresh, self.max_delay, self.version = num_fresh, max_delay, version
        self.base = dict.fromkeys(sorted(self.members), version)
        self.lost_work: set[int] = set()
        self.newcomers: set[int] = set()
        self.buffer: list[Grad] = []

    def begin(self) -> tuple[int, ...]:
        """All workers."""
        return tuple(sorted(self.members))

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
            if worker in self.base:
                self.lost_work.add(worker)
            return NOTHING
        self.base.pop(worker, None)
        for crowd in (self.members, self.lost_work, self.newcomers):
            crowd.discard(worker)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member computes if its work was lost; a new one enters with the next update."""
        if worker not in self.members and self.members:
            self.newcomers.add(worker)
            return NOTHING
        if worker in self.members and worker not in self.lost_work:
            return NOTHING
        self.members.add(worker)
        self.lost_work.discard(worker)
        self.base[worker] = self.version
        return Verdict(go=(worker,))

    def _test(self) -> Verdict:
        fresh = sum(not grad.samples or grad.version == self.version for grad in self.buffer)
        coming = sum(base == self.version or worker in self.lost_work for worker, base in self.base.items())
        if fresh < min(self.num_fresh, fresh + coming) or not (self.buffer or self._deserted()):
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        self.version += any(grad.samples for grad in update)
        self.members |= self.newcomers
        go = (self.members & {grad.worker for grad in update} | self.newcomers) - self.base.keys()
        self.newcomers = set()
        self.base |= dict.fromkeys(go, self.version)
        return Verdict(apply=update, go=tuple(sorted(go)), opens=not update)

    def _deserted(self) -> bool:
        """Only newcomers are left, and there will be no update to enter with."""
        return bool(self.newcomers) and not self.members

    def log_state(self) -> dict[str, float | int | str]:
        """How many gradients wait, and how many of them are late."""
        late = sum(bool(grad.samples) and grad.version < self.version for grad in self.buffer)
        return {"fresh": len(self.buffer) - late, "late": late}
