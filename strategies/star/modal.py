"""Gate ``modal``: all, each, exactly x or groups, with a change at any time that keeps what has arrived (STAR)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, final

import msgspec

from strategies.parts.gates.base import NOTHING, Verdict, by_worker
from strategies.parts.gates.groups import Places
from strategies.protocol import Grad


class Mode(msgspec.Struct, frozen=True):
    """Which gradients make an update: any ``x`` of all workers' (None: all), or all gradients of a group.

    ``Mode()`` is SSGD (``AllGate``), ``Mode(x=1)`` ASGD (``EachGate``), any other x static x-order (``ExactlyGate``),
    ``groups`` dynamic x-order (``GroupsGate``). The two exclude each other.
    """

    x: int | None = None
    groups: tuple[tuple[int, ...], ...] | None = None

    def __str__(self) -> str:
        """``ssgd``, ``asgd``, ``static 3`` or ``dynamic 3 2 1``, the sizes of the groups."""
        if self.groups is not None:
            return "dynamic " + " ".join(str(len(group)) for group in self.groups)
        return "ssgd" if self.x is None else "asgd" if self.x == 1 else f"static {self.x}"


SSGD, ASGD = Mode(), Mode(x=1)


@final
@dataclass(kw_only=True)
class ModalGate:
    """Workers are divided into places: one for all of them, or one for each group.

    Gradients wait at the place of their worker, oldest first, until there are as many as the mode needs, or as many as
    can still arrive. A worker waits for the update that its gradient is part of, and nothing is dropped. A worker that
    is new computes at once: as a member like all others, or as a group of its own.

    A gradient that waits, and a Compute in progress, move with their worker when the mode changes.
    ``at`` knows the place of every worker.

    A sum of gradients waits as one and counts as so many, so an update of x may have more when there are sums from
    before a change. It makes an update at the place of its first worker; if its other workers belong to another group
    by then, they wait for this update, too.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Begin with SSGD; a schedule changes the mode."""
        self.mode = SSGD
        self.members = set[int]()
        self._sums = dict[int, tuple[int, ...]]()
        """The workers of waiting sums, by id."""
        self._said = (SSGD, str(SSGD))

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """All workers compute, in the present mode."""
        self.members, self._sums = set(workers), {}
        self.at = Places(workers)
        self.lost_work: set[int] = set()
        self._divide()
        return tuple(sorted(workers))

    def arrived(self, grad: Grad) -> Verdict:
        """Buffer it; it may complete an update of its place."""
        self.at.arrived(grad)
        return self._test(self.at.of.get(grad.worker, 0))

    def coming(self) -> AbstractSet[int]:
        return self.at.computing

    def sum_arrived(self, grad: Grad, workers: Sequence[int]) -> Verdict:
        """Buffer it; it may complete an update of its place, and :meth:`completed` says of which others."""
        self._sums[grad.id] = tuple(workers)
        self.at.arrived(grad, workers)
        return self._test(self.at.of.get(grad.worker, 0))

    def completed(self) -> list[Verdict]:
        """The updates for which nothing is missing, in order of places, until there is none."""
        verdicts = list[Verdict]()
        for place in sorted(set(self.at.of.values())):
            while (verdict := self._test(place)) != NOTHING:
                verdicts.append(verdict)
        return verdicts

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """A worker that restarts is waited for; without one that left, fewer gradients may suffice."""
        if restarting:
            self.lost_work |= self.at.computing & {worker}
            return NOTHING
        for crowd in (self.members, self.lost_work):
            crowd.discard(worker)
        self.at.ends(worker)
        return self._test(self.at.of.get(worker, 0))

    def joined(self, worker: int) -> Verdict:
        """A returning worker repeats the work that it lost, if any; a new one computes at once."""
        if worker in self.members and worker not in self.lost_work:
            return NOTHING
        if worker not in self.members:
            self.members.add(worker)
            place = 0 if self.mode.groups is None else max(self.at.of.values(), default=-1) + 1
            self.at.divide({**self.at.of, worker: place})
        self.at.begins(worker)
        self.lost_work.discard(worker)
        return Verdict(go=(worker,))

    def switch(self, mode: Mode) -> list[Verdict]:
        """Change to ``mode``; return the updates that this completes, in order.

        The buffer may hold several: twice x gradients and more, if groups were larger than x.
        """
        self.mode = mode
        self._divide()
        return self.completed()

    def _divide(self) -> None:
        """A place for everybody: a member that no group names is one by itself, a worker that left is in the first."""
        groups: Iterable[Iterable[int]] = [self.members]
        if self.mode.groups is not None:
            present = [self.members.intersection(group) for group in self.mode.groups]
            alone = self.members.difference(*self.mode.groups)
            groups = [group for group in [*present, *({worker} for worker in sorted(alone))] if group]
        waiting = dict.fromkeys((grad.worker for grad in self.at.buffer.values()), 0)
        self.at.divide(waiting | {worker: place for place, group in enumerate(groups) for worker in group})

    def _test(self, place: int) -> Verdict:
        waiting = self.at.number(place)
        needed = waiting + self.at.coming(place)
        if self.mode.x is not None:
            needed = min(self.mode.x, needed)
        if not waiting or waiting < needed:
            return NOTHING
        update = self.at.take(place, needed)
        go = self.members.intersection(self._workers_of(update)) - self.at.computing
        # workers that left, came back and delivered again; workers of a sum may be of several places
        go.difference_update(self._workers_of(self.at.buffer.values() if self._sums else self.at.waiting(place)))
        for grad in update:
            self._sums.pop(grad.id, None)
        for worker in go:
            self.at.begins(worker)
        return Verdict(apply=by_worker(update), go=tuple(sorted(go)))

    def _workers_of(self, grads: Iterable[Grad]) -> list[int]:
        return [worker for grad in grads for worker in self._sums.get(grad.id, (grad.worker,))]

    def waiting_groups(self) -> list[list[int]]:
        """All with SSGD, the groups of dynamic x-order; with static x-order no particular worker is waited for."""
        if self.mode.x is not None:
            return []
        places = sorted({self.at.of[worker] for worker in self.members})
        return [sorted(worker for worker in self.members if self.at.of[worker] == place) for place in places]

    def log_state(self) -> dict[str, float | int | str]:
        if self._said[0] is not self.mode:  # its text is long where there are many groups
            self._said = (self.mode, str(self.mode))
        return {"mode": self._said[1], "arrived": len(self.at.buffer)}
