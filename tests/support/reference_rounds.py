"""What gates answer while workers come and go, by their sentences alone; see ``tests/unit/strategies/test_gates.py``.

Workers have an order or wait with a gradient. Who restarts keeps its place; if its order died with its process, it gets
another when it is back. Who leaves is not waited for, and what it has delivered remains.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from strategies.parts.gates import Verdict
from strategies.protocol import Grad

NOTHING = Verdict()


@dataclass
class Rounds:
    """``enough`` says whether what waits is an update; ``late_by``: updates by which a gradient may be late.

    ``parts`` are those of a batch; 0: it has none, and who has delivered waits. Unless newcomers compute ``at_once``,
    they enter with the next update.
    """

    enough: Callable[[Rounds], bool]
    late_by: float = float("inf")
    parts: int = 0
    at_once: bool = False
    first_opens: bool = False
    """Whether the first to come begins a round."""
    log: Callable[[Rounds], dict[str, Any]] = lambda self: {"arrived": len(self.waiting)}
    lost_orders: set[int] = field(default_factory=set)

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.version, self.members, self.newcomers = version, set(workers), set[int]()
        self.orders = dict.fromkeys(self.members, version)
        self.lost_orders.clear()
        self.waiting: list[Grad] = []
        self.done = dict.fromkeys(self.members, 0)
        return tuple(sorted(workers))

    def arrived(self, grad: Grad) -> Verdict:
        worker = grad.worker
        if grad.samples and self.version - grad.version > self.late_by:
            self.orders[worker] = self.version
            return Verdict(drop=(grad,), go=(worker,))
        del self.orders[worker]
        self.waiting.append(grad)
        self.done[worker] += (grad.version == self.version) if grad.samples else self.parts
        if self.done[worker] < self.parts:
            self.orders[worker] = self.version
            return Verdict(go=(worker,))
        return self._update()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        if restarting:
            self.lost_orders |= {worker} & self.orders.keys()
            return NOTHING
        for crowd in (self.members, self.newcomers, self.lost_orders):
            crowd.discard(worker)
        self.orders.pop(worker, None)
        if self.done.get(worker, 0) < self.parts:
            self.done.pop(worker, None)
        return self._update()

    def joined(self, worker: int) -> Verdict:
        if worker in self.members and worker not in self.lost_orders:
            return NOTHING
        if worker not in self.members and self.members and not self.at_once:
            self.newcomers.add(worker)
            return NOTHING
        opens = self.first_opens and not self.members
        self.lost_orders.discard(worker)
        self.members.add(worker)
        self.done.setdefault(worker, 0)
        self.orders[worker] = self.version
        return Verdict(go=(worker,), opens=opens)

    def _update(self) -> Verdict:
        deserted = self.newcomers and not self.members
        if not (self.waiting or deserted) or not self.enough(self):
            return NOTHING
        update, self.waiting = tuple(sorted(self.waiting, key=lambda grad: grad.worker)), []
        self.version += any(grad.samples for grad in update)
        self.members |= self.newcomers
        go = ({grad.worker for grad in update} | self.newcomers) & self.members - self.orders.keys()
        self.newcomers = set()
        self.orders |= dict.fromkeys(go, self.version)
        self.done = dict.fromkeys(self.members, 0)
        return Verdict(apply=update, go=tuple(sorted(go)), opens=not update)

    @property
    def fresh(self) -> int:
        return sum(not grad.samples or grad.version == self.version for grad in self.waiting)

    @property
    def whole(self) -> int:
        return sum(done >= self.parts for done in self.done.values())

    def log_state(self) -> dict[str, Any]:
        return self.log(self)


def every() -> Rounds:
    """All members make an update together (BSP)."""
    return Rounds(lambda self: not self.orders, first_opens=True)


def each() -> Rounds:
    """Every gradient is an update of its own (ASP)."""
    return Rounds(lambda self: True, at_once=True, log=lambda self: {})


def exactly(x: int) -> Rounds:
    """Any x, or as many as can still come (STAR)."""
    return Rounds(lambda self: len(self.waiting) >= min(x, len(self.waiting) + len(self.orders)), at_once=True)


def first(k: int) -> Rounds:
    """The first k on the present parameters, or all members (backup workers)."""
    return Rounds(
        lambda self: len(self.waiting) >= k or not self.orders, 0, log=lambda self: {"fresh": len(self.waiting)}
    )


def delayed(k: int, late_by: int) -> Rounds:
    """The first k that are fresh, or as many as still can be, and late ones (LGC)."""

    def enough(self: Rounds) -> bool:
        coming = sum(on == self.version or worker in self.lost_orders for worker, on in self.orders.items())
        return self.fresh >= min(k, self.fresh + coming)

    return Rounds(enough, late_by, log=lambda self: {"fresh": self.fresh, "late": len(self.waiting) - self.fresh})


def blocks(k: int, late_by: int, parts: int) -> Rounds:
    """All parts that there are when k workers, or all, are whole (LGC)."""

    def enough(self: Rounds) -> bool:
        return self.whole >= min(k, len(self.done))

    return Rounds(enough, late_by, parts, log=lambda self: {"whole": self.whole, "parts": len(self.waiting)})


@dataclass
class Bounded:
    """Nobody begins who is more than ``bound`` iterations ahead of the slowest; with 0 a round is one update (SSP)."""

    bound: int

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.clock, self.low = dict.fromkeys(sorted(workers), 0), 0
        self.orders, self.lost_orders, self.waiting = dict.fromkeys(workers, 0), set[int](), list[Grad]()
        return tuple(self.clock)

    def arrived(self, grad: Grad) -> Verdict:
        self.clock[grad.worker] += 1
        del self.orders[grad.worker]
        self.waiting.append(grad)
        return self._answer()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        if restarting:
            self.lost_orders |= {worker} & self.orders.keys()
            return NOTHING
        self.lost_orders.discard(worker)
        self.orders.pop(worker, None)
        return NOTHING if self.clock.pop(worker, None) is None else self._answer()

    def joined(self, worker: int) -> Verdict:
        if worker in self.clock and worker not in self.lost_orders:
            return NOTHING
        self.lost_orders.discard(worker)
        self.clock.setdefault(worker, self.low)
        self.orders[worker] = 0
        return Verdict(go=(worker,))

    def _answer(self) -> Verdict:
        before, self.low = self.low, min(self.clock.values(), default=self.low)
        if self.bound == 0 and self.low == before and self.clock:
            return NOTHING
        update, self.waiting = tuple(sorted(self.waiting, key=lambda grad: grad.worker)), []
        ahead = {worker: clock - self.low for worker, clock in self.clock.items() if worker not in self.orders}
        go = tuple(sorted(worker for worker, by in ahead.items() if by <= self.bound))
        self.orders |= dict.fromkeys(go, 0)
        return Verdict(apply=update, go=go)

    def log_state(self) -> dict[str, Any]:
        return {"slowest_clock": self.low, "blocked": len(self.clock.keys() - self.orders.keys())}


@dataclass
class Groups:
    """Every group waits for its own members; who comes is a group, and what a departed one left stays where it was."""

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.orders, self.lost_orders, self.waiting = dict.fromkeys(workers, 0), set[int](), list[Grad]()
        self.regroup([workers])
        return tuple(sorted(workers))

    def regroup(self, groups: list[Collection[int]]) -> list[Verdict]:
        self.groups = [set(group) for group in groups] or [set()]
        self.members = set[int]().union(*self.groups)
        self.place = {worker: place for place, group in enumerate(self.groups) for worker in group}
        answers = [self._update(place) for place in range(len(self.groups))]
        return [answer for answer in answers if answer != NOTHING]

    def arrived(self, grad: Grad) -> Verdict:
        del self.orders[grad.worker]
        self.waiting.append(grad)
        return self._update(self.place.get(grad.worker, 0))

    def lost(self, worker: int, restarting: bool) -> Verdict:
        if restarting:
            self.lost_orders |= {worker} & self.orders.keys()
            return NOTHING
        for crowd in (self.members, self.lost_orders, *self.groups):
            crowd.discard(worker)
        self.orders.pop(worker, None)
        return self._update(self.place[worker]) if worker in self.place else NOTHING

    def joined(self, worker: int) -> Verdict:
        if worker in self.members and worker not in self.lost_orders:
            return NOTHING
        if worker not in self.members:
            self.place[worker] = len(self.groups)
            self.groups.append({worker})
            self.members.add(worker)
        self.lost_orders.discard(worker)
        self.orders[worker] = 0
        return Verdict(go=(worker,))

    def _update(self, place: int) -> Verdict:
        here = [grad for grad in self.waiting if self.place.get(grad.worker, 0) == place]
        if not here or any(self.place.get(worker, 0) == place for worker in self.orders):
            return NOTHING
        self.waiting = [grad for grad in self.waiting if grad not in here]
        go = tuple(sorted(self.groups[place]))
        self.orders |= dict.fromkeys(go, 0)
        return Verdict(apply=tuple(sorted(here, key=lambda grad: grad.worker)), go=go)

    def log_state(self) -> dict[str, Any]:
        return {"groups": " ".join(str(len(group)) for group in self.groups if group), "arrived": len(self.waiting)}
