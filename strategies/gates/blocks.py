"""Gate ``blocks(K, m)``: as ``delayed(K)`` with gradients that come in m parts (LGC's partial gradients)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.protocol import Grad


@final
class BlocksGate:
    """K workers that are whole make the update, with all parts that the others have brought by then.

    A worker is whole when ``num_blocks`` parts on the parameters of now are here; then it waits. Until then it goes on
    with the next part at once, on the newest parameters, also after a part that was late or too late. ``done`` are the
    fresh parts of every worker since the last update.
    """

    def __init__(self, workers: Iterable[int], num_whole: int, max_delay: int, num_blocks: int, version: int) -> None:
        self.members = set(workers)
        self.num_whole, self.max_delay, self.num_blocks = num_whole, max_delay, num_blocks
        self.version = version
        self.done = dict.fromkeys(sorted(self.members), 0)
        self.computing = set(self.members)
        self.lost_work: set[int] = set()
        self.newcomers: set[int] = set()
        self.buffer: list[Grad] = []

    def begin(self) -> tuple[int, ...]:
        """All workers."""
        return tuple(sorted(self.members))

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
            self.lost_work |= self.computing & {worker}
            return NOTHING
        for crowd in (self.members, self.computing, self.lost_work, self.newcomers):
            crowd.discard(worker)
        if self.done.get(worker, 0) < self.num_blocks:
            self.done.pop(worker, None)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member computes the part that it lost; a new one enters with the next update."""
        if worker not in self.members and self.members:
            self.newcomers.add(worker)
            return NOTHING
        if worker in self.members and worker not in self.lost_work:
            return NOTHING
        self.members.add(worker)
        self.computing.add(worker)
        self.done.setdefault(worker, 0)
        self.lost_work.discard(worker)
        return Verdict(go=(worker,))

    def _test(self) -> Verdict:
        whole = sum(done >= self.num_blocks for done in self.done.values())
        deserted = bool(self.newcomers) and not self.members
        if whole < min(self.num_whole, len(self.done)) or not (self.buffer or deserted):
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        self.version += any(grad.samples for grad in update)
        self.members |= self.newcomers
        self.newcomers = set()
        self.done = dict.fromkeys(sorted(self.members), 0)
        go = self.members - self.computing
        self.computing |= go
        return Verdict(apply=update, go=tuple(sorted(go)), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        """How many workers are whole, and how many parts wait."""
        return {"whole": sum(done >= self.num_blocks for done in self.done.values()), "parts": len(self.buffer)}
