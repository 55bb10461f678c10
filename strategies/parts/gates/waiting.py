"""Which gradients wait and how many are still to come, by place; no event looks at all workers (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import final

from strategies.protocol import Grad


@final
class Places:
    """``of`` is the place of every worker, a number; workers that are not in there are at place 0.

    A sum of several gradients (``Grad.members``) waits as one, where its first worker is, and counts as so many.

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
        self._number: Counter[int] = Counter()
        for grad in self.buffer.values():
            self._wait(grad)

    def arrived(self, grad: Grad, workers: Iterable[int] = ()) -> None:
        """The gradient waits from now on; ``workers``: all of a sum."""
        for worker in workers or (grad.worker,):
            self.ends(worker)
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

    def number(self, place: int) -> int:
        """How many gradients wait there, each in a sum counted."""
        return self._number[place]

    def coming(self, place: int) -> int:
        """The number of workers there that compute."""
        return self._coming[place]

    def take(self, place: int, count: int) -> list[Grad]:
        """Remove the oldest gradients that wait there, ``count`` or as many more as the last sum has; return them."""
        waiting, taken = self._waiting[place], list[Grad]()
        for grad in waiting.values():
            if count <= 0:
                break
            taken.append(grad)
            count -= size_of(grad)
        for grad in taken:
            del waiting[grad.id], self.buffer[grad.id]
            self._number[place] -= size_of(grad)
        return taken

    def _wait(self, grad: Grad) -> None:
        place = self.of.get(grad.worker, 0)
        self._waiting.setdefault(place, {})[grad.id] = grad
        self._number[place] += size_of(grad)


def size_of(grad: Grad) -> int:
    """How many workers' gradients it is: several of a sum."""
    return len(grad.members) or 1
