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

    Who has delivered a fresh gradient waits for the update that it is part of. Who has delivered a late one begins
    anew at once if its next one will be in time: taking as long as the last, and updates coming as they did last, at
    most ``max_delay`` versions late. Otherwise (or always, with ``waits``) it waits too: starting at once would make
    its next gradient older still. With fewer than K that can still be fresh (workers have left, or compute on old
    parameters) those suffice.

    ``base`` is the version that every worker computes on, at least, and ``begun_s`` when it began; ``now_s`` is set by
    the host before every call.
    """

    def __init__(
        self,
        workers: Iterable[int],
        num_fresh: int,
        max_delay: int,
        version: int,
        *,
        now_s: float = 0.0,
        waits: bool = False,
    ) -> None:
        self.roll = Roll(workers)
        self.num_fresh, self.max_delay, self.version, self.waits = num_fresh, max_delay, version, waits
        self.now_s = self.updated_s = now_s
        self.period_s = 0.0
        self.base = dict.fromkeys(self.roll.begin(), version)
        self.begun_s = dict.fromkeys(self.base, now_s)
        self.buffer: list[Grad] = []

    def begin(self) -> tuple[int, ...]:
        """All workers."""
        return self.roll.begin()

    def arrived(self, grad: Grad) -> Verdict:
        """Too late: drop and recompute. Otherwise buffer, and update when enough fresh ones are here."""
        if grad.samples and self.version - grad.version > self.max_delay:
            return Verdict(drop=(grad,), go=self._go(grad.worker))
        self.base.pop(grad.worker, None)
        self.buffer.append(grad)
        if grad.samples and grad.version < self.version and self._in_time(grad.worker):
            return Verdict(go=self._go(grad.worker))
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
        return Verdict(go=self._go(worker))

    def _test(self) -> Verdict:
        fresh = sum(not grad.samples or grad.version == self.version for grad in self.buffer)
        coming = sum(base == self.version or worker in self.roll.lost_work for worker, base in self.base.items())
        if fresh < min(self.num_fresh, fresh + coming) or not (self.buffer or self.roll.deserted):
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        self.version += any(grad.samples for grad in update)
        entered = self.roll.enter()
        go = (self.roll.members & {grad.worker for grad in update} | entered) - self.base.keys()
        self.period_s, self.updated_s = self.now_s - self.updated_s, self.now_s
        return Verdict(apply=update, go=self._go(*sorted(go)), opens=not update)

    def _go(self, *workers: int) -> tuple[int, ...]:
        """They begin on the parameters of now."""
        self.base |= dict.fromkeys(workers, self.version)
        self.begun_s |= dict.fromkeys(workers, self.now_s)
        return workers

    def _in_time(self, worker: int) -> bool:
        """Whether what it would begin now will be late by ``max_delay`` at most."""
        takes_s = self.now_s - self.begun_s.get(worker, self.now_s)
        ready_s = self.now_s + takes_s - self.updated_s
        return not self.waits and worker in self.roll.members and ready_s < (self.max_delay + 1) * self.period_s

    def log_state(self) -> dict[str, float | int | str]:
        """How many gradients wait, and how many of them are late."""
        late = sum(bool(grad.samples) and grad.version < self.version for grad in self.buffer)
        return {"fresh": len(self.buffer) - late, "late": late}
