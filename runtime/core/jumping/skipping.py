"""Iterations that nobody carries out: the data service books them one after another, at the measured pace (pure).

Every worker has a *slot*: the gradient that it computes, or that has arrived and waits. When its turn comes the samples
of the slot count as applied, and it gets the next ones. So at the end as much is in progress as at the beginning, under
the same numbers, with later data; epochs end as they always do: nobody gets samples of the next before all of this one
are applied.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush, nsmallest
from typing import NamedTuple, TypeVar

import msgspec

from runtime.core.data.shards import samples_of
from runtime.core.executor import Executor
from runtime.core.jumping.pace import START, Pace
from runtime.core.ledger import Order
from strategies.protocol import Grad

T = TypeVar("T", Order, Grad)

LEAST_ROUNDS = 4
"""Rounds of an epoch, at least; where it has fewer, something is always about to wait for the next one."""
EXTRA_ROUNDS = 2
"""Rounds by which a jump may be too long for a job, until all slots are as full as at the beginning."""


class Slot(NamedTuple):
    """``grad_id`` None: the worker's last gradient is applied, and it waits for others."""

    worker: int
    grad_id: int | None
    samples: int


class Skipped(NamedTuple):
    """Iterations of every worker, and updates with their samples, that were not carried out but count."""

    iterations: dict[int, int]
    batches: list[tuple[int, int]]
    """Of every update: samples that were applied before, and with it."""

    @property
    def samples(self) -> int:
        """The number of samples of all skipped updates."""
        return sum(samples for _, samples in self.batches)


def slots_of(executor: Executor, pace: Pace, *, blocks: bool) -> list[Slot] | None:
    """The slot of every worker; None if something is unusual now.

    ``blocks``: whether workers wait although all of their gradients are applied.
    """
    ledger, here = executor.ledger, executor.members.here()
    if ledger.held or executor.reserved or executor.parts.used:
        return None
    if executor.cut.num_samples < LEAST_ROUNDS * sum(pace.batches.values()):
        return None
    found: dict[int, Slot] = {}
    held: list[tuple[int, Order | Grad]] = [(order.grad_id, order) for order in ledger.busy.values()]
    held += [(grad.id, grad) for grad in ledger.grads.values()]
    for grad_id, one in held:
        if one.worker in found or one.samples != one.assigned_samples or one.worker not in here:
            return None
        found[one.worker] = Slot(one.worker, grad_id, one.samples)
    for worker in here:
        if worker not in found:
            if not blocks or worker not in pace.batches:
                return None
            found[worker] = Slot(worker, None, pace.batches[worker])
    return [found[worker] for worker in sorted(found)]


class Skipping:
    """One jump of one job.

    A jump ends where all slots are as full as at the beginning. If that is not soon after ``span_s``, as where fast
    workers have done their part of an epoch and wait for the others, it ends at the last such moment before. What a job
    is ahead or behind is its workers' *credit*, with which the next jump begins.
    """

    def __init__(self, executor: Executor, pace: Pace, slots: list[Slot]) -> None:
        self.executor, self.pace, self.shards = executor, pace, executor.shards
        self.slots = {slot.worker: slot for slot in slots}
        periods_s = pace.periods_s
        self.periods_s = {worker: periods_s[worker] for worker in self.slots}

    def run(self, span_s: float) -> Skipped:
        """Skip what the job does in ``span_s``."""
        marked = self.shards.mark()
        self._begin()
        latest_s, whole = span_s + EXTRA_ROUNDS * max(self.periods_s.values()), 0
        while (at_s := self._next_s) <= (span_s if whole == len(self.batches) else latest_s):
            self._carry_out(at_s)
            if not (self.waiting or self.short):
                whole = len(self.batches)
        if whole < len(self.batches):
            self.shards.rewind(marked)
            self._begin()
            while len(self.batches) < whole:
                self._carry_out(self._next_s)
        for at_s, worker in self.turns:
            self.pace.credits[worker] = 1.0 - (at_s - span_s) / self.periods_s[worker]
        self._renumber()
        return Skipped(self.counts, self.batches)

    def _begin(self) -> None:
        credits = {worker: self.pace.credits.setdefault(worker, START) for worker in self.slots}
        self.turns = sorted(((1.0 - credits[worker]) * self.periods_s[worker], worker) for worker in self.slots)
        """A heap of the workers' next gradients: (seconds from the beginning of the jump, worker)."""
        self.counts = dict.fromkeys(self.slots, 0)
        self.batches: list[tuple[int, int]] = []
        self.waiting: list[int] = []
        """Workers without data until the next epoch."""
        self.short: set[int] = set()
        """Workers that found less data than they had at the beginning."""

    @property
    def _size(self) -> int:
        """Number of gradients of the next update."""
        return min(self.pace.grads_per_update, len(self.turns))

    @property
    def _next_s(self) -> float:
        """When the next update is; infinity if no data is left."""
        if not self.turns:
            return math.inf
        return self.turns[0][0] if self._size == 1 else nsmallest(self._size, self.turns)[-1][0]

    def _carry_out(self, now_s: float) -> None:
        """One update of the gradients whose turn it is, and what their workers do next."""
        turns = [heappop(self.turns) for _ in range(self._size)]
        before = self.shards.samples_applied
        for _, worker in turns:
            self._apply(self.slots[worker])
        self.batches.append((before, self.shards.samples_applied - before))
        waited, self.waiting = self.waiting, []
        for worker in waited:
            self._order(worker, now_s)
        for at_s, worker in turns:
            self._order(worker, at_s)

    def _apply(self, slot: Slot) -> None:
        """Book what a slot holds; who only waits for others has something for this moment."""
        grad_id = slot.grad_id
        if grad_id is None:
            grad_id = -1
            if not self.shards.take(grad_id, slot.worker, slot.samples):
                return
        self.shards.applied(grad_id)
        self.counts[slot.worker] += 1

    def _order(self, worker: int, at_s: float) -> None:
        """Give a worker data, if there is any now, which it has computed after its mean time."""
        slot = self.slots[worker]
        if slot.grad_id is not None:
            taken = self.shards.take(slot.grad_id, worker, slot.samples)
            if not taken:
                self.waiting.append(worker)
                return
            (self.short.discard if samples_of(taken) == slot.samples else self.short.add)(worker)
        heappush(self.turns, (at_s + self.periods_s[worker], worker))

    def _renumber(self) -> None:
        """What is in progress is as many iterations and updates later."""
        executor, ledger = self.executor, self.executor.ledger
        executor.version += len(self.batches)
        for worker, skipped in self.counts.items():
            executor.iterations[worker] += skipped
        for worker, order in ledger.busy.items():
            ledger.busy[worker] = self._later(order, order.grad_id, worker)
        for grad_id, grad in ledger.grads.items():
            ledger.grads[grad_id] = self._later(grad, grad_id, grad.worker)

    def _later(self, one: T, grad_id: int, worker: int) -> T:
        return msgspec.structs.replace(
            one,
            iteration=one.iteration + self.counts[worker],
            version=one.version + len(self.batches),
            samples=samples_of(self.shards.out[grad_id][1]),
        )
