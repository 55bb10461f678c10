"""Iterations that nobody carries out: the data service books them one after another, at the measured pace (pure).

Every worker has a *slot*: the gradient that it computes, or that has arrived and waits. When its turn comes the samples
of the slot count as applied, and it gets the next ones. So at the end as much is in progress as at the beginning, under
the same numbers, with later data; epochs end as they always do: nobody gets samples of the next before all of this one
are applied.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

import msgspec

from runtime.core.executor import Executor
from runtime.core.ledger import Order
from runtime.core.pace import START, Pace
from runtime.core.shards import samples_of
from strategies.protocol import Grad

T = TypeVar("T", Order, Grad)

LEAST_ROUNDS = 4
"""Rounds of an epoch, at least; where it has fewer, something is always about to wait for the next one."""
EXTRA_ROUNDS = 2
"""Rounds that a job may be ahead of the others until all slots are as full as at the beginning."""


class Slot(NamedTuple):
    """``grad_id`` None: the worker's last gradient is applied, and it waits for others."""

    worker: int
    grad_id: int | None
    samples: int


class Skipped(NamedTuple):
    """Iterations of every worker, updates and samples that were not carried out but count."""

    iterations: dict[int, int]
    updates: int
    samples: int


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
    """One jump of one job; ``updated(samples)`` is called for every update.

    ``together``: see :meth:`Pace.periods_s`.
    """

    def __init__(
        self, executor: Executor, pace: Pace, slots: list[Slot], together: int | None, updated: Callable[[int], None]
    ) -> None:
        self.executor, self.pace, self.updated = executor, pace, updated
        self.shards = executor.shards
        self.slots = {slot.worker: slot for slot in slots}
        periods_s = pace.periods_s(together)
        self.periods_s = {worker: periods_s[worker] for worker in self.slots}
        self.counts = dict.fromkeys(self.slots, 0)
        self.updates = self.samples = 0
        self.waiting: list[int] = []
        """Workers without data until the next epoch."""
        credits = {worker: pace.credits.setdefault(worker, START) for worker in self.slots}
        self.turns = [((1.0 - credits[worker]) * self.periods_s[worker], worker) for worker in self.slots]
        """A heap of the workers' next gradients: (seconds from the beginning of the jump, worker)."""
        heapify(self.turns)

    def run(self, span_s: float) -> Skipped:
        """Skip what the job does in ``span_s``."""
        latest_s = span_s + EXTRA_ROUNDS * max(self.periods_s.values())
        while (turns := self._next(span_s, latest_s)) is not None:
            self._carry_out(turns)
        for at_s, worker in self.turns:
            self.pace.credits[worker] = 1.0 - (at_s - span_s) / self.periods_s[worker]
        self._renumber()
        return Skipped(self.counts, self.updates, self.samples)

    def _next(self, span_s: float, latest_s: float) -> list[tuple[float, int]] | None:
        """The turns of the next update; None: the jump is over."""
        size = min(self.pace.grads_per_update, len(self.turns))
        if not size:
            raise RuntimeError("a jump has gone beyond the end of the data")
        turns = [heappop(self.turns) for _ in range(size)]
        if turns[-1][0] <= span_s or not self._may_end(late=turns[-1][0] > latest_s):
            return turns
        for turn in turns:
            heappush(self.turns, turn)
        return None

    def _may_end(self, *, late: bool) -> bool:
        """Whether all slots are as full as at the beginning; of a jump that is late, whether none is empty."""
        if self.waiting or late:
            return not self.waiting
        out = self.shards.out
        return all(slot.grad_id is None or samples_of(out[slot.grad_id][1]) == slot.samples for slot in self.slots.values())

    def _carry_out(self, turns: list[tuple[float, int]]) -> None:
        """One update of the gradients whose turn it is, and what their workers do next."""
        before = self.shards.samples_applied
        for _, worker in turns:
            self._apply(self.slots[worker])
        self.updates += 1
        self.samples += (samples := self.shards.samples_applied - before)
        if samples:
            self.updated(samples)
        waited, self.waiting = self.waiting, []
        for worker in waited:
            self._begin(worker, turns[-1][0])
        for at_s, worker in turns:
            self._begin(worker, at_s)

    def _apply(self, slot: Slot) -> None:
        """Book what a slot holds; who only waits for others has something for this moment."""
        grad_id = slot.grad_id
        if grad_id is None:
            grad_id = -1
            if not self.shards.take(grad_id, slot.worker, slot.samples):
                return
        self.shards.applied(grad_id)
        self.counts[slot.worker] += 1

    def _begin(self, worker: int, at_s: float) -> None:
        """Give a worker data, if there is any now, which it has computed after its mean time."""
        slot = self.slots[worker]
        if slot.grad_id is not None and not self.shards.take(slot.grad_id, worker, slot.samples):
            self.waiting.append(worker)
        else:
            heappush(self.turns, (at_s + self.periods_s[worker], worker))

    def _renumber(self) -> None:
        """What is in progress is as many iterations and updates later."""
        executor, ledger = self.executor, self.executor.ledger
        executor.version += self.updates
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
            version=one.version + self.updates,
            samples=samples_of(self.shards.out[grad_id][1]),
        )
