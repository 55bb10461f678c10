"""Gate ``blocks(K, m)``: as ``delayed(K)`` with gradients that come in m parts (LGC's partial gradients)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.gates.roll import Roll
from strategies.protocol import Grad


@final
class BlocksGate:
    """K workers that are whole make the update, with all parts that the others have brought by then.

    A worker is whole when ``num_blocks`` parts on the parameters of now are here; then it waits. Until then it goes on
    with the next part at once, on the newest parameters, also after a part that was late or too late. ``done`` are the
    fresh parts of every worker since the last update.
    """

    def __init__(self, workers: Iterable[int], num_whole: int, max_delay: int, num_blocks: int, version: int) -> None:
        self.roll = Roll(workers)
        self.num_whole, self.max_delay, self.num_blocks = num_whole, max_delay, num_blocks
        self.version = version
        self.done = dict.fromkeys(self.roll.begin(), 0)
        self.computing = set(self.roll.members)
        self.buffer: list[Grad] = []

    def begin(self) -> tuple[int, ...]:
        """All workers."""
        return self.roll.begin()

    def arrived(self, grad: Grad) -> Verdict:
        """A part: the worker goes on, unless it is whole or finds no more data."""
        worker = grad.worker
        if grad.samples and self.version - grad.version > self.max_delay:
            return Verdict(drop=(grad,), go=(worker,))
        self.buffer.append(grad)
        if not grad.samples:
            self.done[worker] = self.num_blocks
        elif grad.version == self.version:
            self.done[worker] += 1
        if self.done[worker] < self.num_blocks:
            return Verdict(go=(worker,))
        self.computing.discard(worker)
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """A worker that restarts can still become whole; one that left may have been, and is not waited for."""
        if restarting:
            self.roll.lost_work |= self.computing & {worker}
            return NOTHING
        self.roll.leave(worker)
        self.computing.discard(worker)
        if self.done.get(worker, 0) < self.num_blocks:
            self.done.pop(worker, None)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member computes the part that it lost; a new one enters with the next update."""
        if not self.roll.admits(worker):
            return NOTHING
        self.computing.add(worker)
        self.done.setdefault(worker, 0)
        return Verdict(go=(worker,))

    def _test(self) -> Verdict:
        whole = sum(done >= self.num_blocks for done in self.done.values())
        if whole < min(self.num_whole, len(self.done)) or not (self.buffer or self.roll.deserted):
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        self.version += any(grad.samples for grad in update)
        self.roll.enter()
        self.done = dict.fromkeys(self.roll.begin(), 0)
        go = self.roll.members - self.computing
        self.computing |= go
        return Verdict(apply=update, go=tuple(sorted(go)), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        """How many workers are whole, and how many parts wait."""
        return {"whole": sum(done >= self.num_blocks for done in self.done.values()), "parts": len(self.buffer)}
