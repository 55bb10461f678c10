"""Which gradients wait and how many are still to come, by place; no event looks at all workers (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from typing import final

from strategies.protocol import Grad


@final
class Places:
    """``of`` is the place of every worker, a number; workers that are not in there are at place 0.

    ``buffer`` holds the waiting gradients by id, oldest first; ``computing`` are the workers whose gradient is still to
    come. Both belong to the place of their worker, wherever that was when they began.
    """

    def __init__(self, workers: Iterable[int]) -> None:
        """These workers compute, all at place 0."""
        self.computing = set(workers)
        self.buffer: dict[int, Grad] = {}
        self.divide({})

    def divide(self, of: dict[int, int]) -> None:
        """Everybody has a new place, and takes along what is theirs."""
        self.of = of
        self._coming = Counter(of.get(worker, 0) for worker in self.computing)
        self._waiting: dict[int, dict[int, Grad]] = {}
        for grad in self.buffer.values():
            self._wait(grad)

    def arrived(self, grad: Grad) -> None:
        """The gradient waits from now on."""
        self.ends(grad.worker)
        self.buffer[grad.id] = grad
        self._wait(grad)

    def begins(self, worker: int) -> None:
        """The worker computes from now on, at its place."""
        if worker not in self.computing:
            self.computing.add(worker)
            self._coming[self.of.get(worker, 0)] += 1

    def ends(self, worker: int) -> None:
        """The worker does not compute any more."""
        if worker in self.computing:
            self.computing.discard(worker)
            self._coming[self.of.get(worker, 0)] -= 1

    def waiting(self, place: int) -> Collection[Grad]:
        """The gradients that wait there, oldest first."""
        return self._waiting.get(place, {}).values()

    def coming(self, place: int) -> int:
        """The number of workers there that compute."""
        return self._coming[place]

    def take(self, place: int, count: int) -> list[Grad]:
        """Remove the oldest gradients that wait there, and return them."""
        waiting = self._waiting[place]
        taken = list(islice(waiting.values(), count))
        for grad in taken:
            del waiting[grad.id], self.buffer[grad.id]
        return taken

    def _wait(self, grad: Grad) -> None:
        self._waiting.setdefault(self.of.get(grad.worker, 0), {})[grad.id] = grad
