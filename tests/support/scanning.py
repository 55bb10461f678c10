"""A gate and clusters that look at everything at every event: plain, and oracles for those that count along."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from strategies.parts.gates.base import NOTHING, Verdict, by_worker
from strategies.protocol import Grad
from strategies.star.modal import SSGD, Mode


@dataclass(kw_only=True)
class ScanningModal:
    """Looks at all gradients and all workers at every event."""

    def __post_init__(self) -> None:
        self.mode = SSGD
        self.members = set[int]()

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.members = set(workers)
        self.computing = set(workers)
        self.lost_work: set[int] = set()
        self.buffer: list[Grad] = []
        self._divide()
        return tuple(sorted(workers))

    def arrived(self, grad: Grad) -> Verdict:
        self.computing.discard(grad.worker)
        self.buffer.append(grad)
        return self._test(self.place.get(grad.worker, 0))

    def lost(self, worker: int, restarting: bool) -> Verdict:
        if restarting:
            self.lost_work |= self.computing & {worker}
            return NOTHING
        for crowd in (self.members, self.computing, self.lost_work):
            crowd.discard(worker)
        return self._test(self.place.get(worker, 0))

    def joined(self, worker: int) -> Verdict:
        if worker in self.members and worker not in self.lost_work:
            return NOTHING
        if worker not in self.members:
            self.members.add(worker)
            self.place[worker] = 0 if self.mode.groups is None else max(self.place.values(), default=-1) + 1
        self.computing.add(worker)
        self.lost_work.discard(worker)
        return Verdict(go=(worker,))

    def switch(self, mode: Mode) -> list[Verdict]:
        self.mode = mode
        self._divide()
        verdicts = list[Verdict]()
        for place in sorted(set(self.place.values())):
            while (verdict := self._test(place)) != NOTHING:
                verdicts.append(verdict)
        return verdicts

    def _divide(self) -> None:
        groups: Iterable[Iterable[int]] = [self.members]
        if self.mode.groups is not None:
            present = [self.members.intersection(group) for group in self.mode.groups]
            alone = self.members.difference(*self.mode.groups)
            groups = [group for group in [*present, *({worker} for worker in sorted(alone))] if group]
        self.place = dict.fromkeys((grad.worker for grad in self.buffer), 0)
        self.place |= {worker: place for place, group in enumerate(groups) for worker in group}

    def _test(self, place: int) -> Verdict:
        waiting = [grad for grad in self.buffer if self.place.get(grad.worker, 0) == place]
        coming = sum(self.place[worker] == place for worker in self.computing)
        needed = len(waiting) + coming
        if self.mode.x is not None:
            needed = min(self.mode.x, needed)
        if not waiting or len(waiting) < needed:
            return NOTHING
        update = waiting[:needed]
        used = {grad.id for grad in update}
        self.buffer = [grad for grad in self.buffer if grad.id not in used]
        go = self.members.intersection(grad.worker for grad in update) - self.computing
        go -= {grad.worker for grad in self.buffer}  # who left, came back and delivered again
        self.computing |= go
        return Verdict(apply=by_worker(update), go=tuple(sorted(go)))

    def log_state(self) -> dict[str, float | int | str]:
        return {"mode": str(self.mode), "arrived": len(self.buffer)}


def scanned_clusters(values: Sequence[float], ratio: float, at_most: int | None = None) -> list[list[int]]:
    """Looks at all pairs of neighbours before every union."""
    order = sorted(range(len(values)), key=lambda index: (values[index], index))
    groups = [[index] for index in order]
    while len(groups) > 1:
        unions = [values[right[-1]] / values[left[0]] for left, right in pairwise(groups)]
        nearest = min(range(len(unions)), key=lambda place: (unions[place], place))
        if unions[nearest] > ratio and (at_most is None or len(groups) <= at_most):
            break
        groups[nearest : nearest + 2] = [groups[nearest] + groups[nearest + 1]]
    return [sorted(group) for group in groups]
