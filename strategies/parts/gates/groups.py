"""Gate ``groups``: every group of workers makes updates of its own (STAR's dynamic-x-order)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.parts.gates.base import NOTHING, Verdict, by_worker
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
        """Every worker moves to a new place, with its gradient or Compute."""
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


@final
@dataclass(kw_only=True)
class GroupsGate:
    """Within a group every worker waits for all others; no group waits for another.

    At first all workers are one group; a schedule may :meth:`regroup` them. One group is ``AllGate``, groups of one are
    ``EachGate``. A waiting gradient, and a Compute in progress, move with their worker from group to group.

    ``at`` knows the group of every worker; for one that has left, the first uses its remaining gradient.
    ``members`` are the members of all groups.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.at = Places(workers)
        self._divide([workers])
        self.lost_work: set[int] = set()
        return tuple(sorted(workers))

    def arrived(self, grad: Grad) -> Verdict:
        """Buffer it; the last one of its group makes the update."""
        self.at.arrived(grad)
        return self._test(self.at.of.get(grad.worker, 0))

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Its group waits for a worker that restarts, and continues without one that left."""
        if restarting:
            self.lost_work |= self.at.computing & {worker}
            return NOTHING
        if worker not in self.at.of:
            return NOTHING
        place = self.at.of[worker]
        for crowd in (self.groups[place], self.members, self.lost_work):
            crowd.discard(worker)
        self.at.ends(worker)
        self._sizes = sizes_of(self.groups)
        return self._test(place)

    def joined(self, worker: int) -> Verdict:
        """A returning worker repeats lost work, if any; a new one computes at once, in a group of its own."""
        known = worker in self.members
        if known and worker not in self.lost_work:
            return NOTHING
        if not known:
            self.at.divide({**self.at.of, worker: len(self.groups)})
            self.groups.append({worker})
            self.members.add(worker)
            self._sizes = sizes_of(self.groups)
        self.at.begins(worker)
        self.lost_work.discard(worker)
        return Verdict(go=(worker,))

    def regroup(self, groups: Sequence[Iterable[int]]) -> list[Verdict]:
        """Divide the members into new groups; return the updates of those that are complete thereby, in their order."""
        self._divide(groups)
        return [verdict for place in range(len(self.groups)) if (verdict := self._test(place)) != NOTHING]

    def _divide(self, groups: Sequence[Iterable[int]]) -> None:
        self.groups = [set(group) for group in groups] or [set()]
        self.members = set[int]().union(*self.groups)
        self._sizes = sizes_of(self.groups)
        self.at.divide({worker: place for place, group in enumerate(self.groups) for worker in group})

    def _test(self, place: int) -> Verdict:
        waiting = len(self.at.waiting(place))
        if not waiting or self.at.coming(place):
            return NOTHING
        go = tuple(sorted(self.groups[place]))
        for worker in go:
            self.at.begins(worker)
        return Verdict(apply=by_worker(self.at.take(place, waiting)), go=go)

    def waiting_groups(self) -> list[list[int]]:
        return [sorted(group) for group in self.groups if group]

    def log_state(self) -> dict[str, float | int | str]:
        return {"groups": self._sizes, "arrived": len(self.at.buffer)}


def sizes_of(groups: Iterable[Collection[int]]) -> str:
    """The sizes of the groups that have members, as one text."""
    return " ".join(str(len(group)) for group in groups if group)
