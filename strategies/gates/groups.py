"""Gate ``groups``: every group of workers makes updates of its own (STAR's dynamic-x-order)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class GroupsGate:
    """Within a group every worker waits for all others; no group waits for another.

    At first all workers are one group; a schedule may :meth:`regroup` them. One group is ``AllGate``, groups of one are
    ``EachGate``. A waiting gradient, and a Compute in progress, move with their worker from group to group.

    ``place`` is the group of every worker; for one that has left, the group that uses its remaining gradient.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False

    def members(self) -> set[int]:
        """The members of all groups."""
        return set[int]().union(*self.groups)

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.place: dict[int, int] = {}
        self._divide([workers])
        self.computing = self.members()
        self.lost_work: set[int] = set()
        self.buffer: list[Grad] = []
        return tuple(sorted(workers))

    def arrived(self, grad: Grad) -> Verdict:
        """Buffer it; the last one of its group makes the update."""
        self.computing.discard(grad.worker)
        self.buffer.append(grad)
        return self._test(self.place[grad.worker])

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Its group waits for a worker that restarts, and continues without one that left."""
        if restarting:
            self.lost_work |= self.computing & {worker}
            return NOTHING
        if worker not in self.place:
            return NOTHING
        for crowd in (self.groups[self.place[worker]], self.computing, self.lost_work):
            crowd.discard(worker)
        return self._test(self.place[worker])

    def joined(self, worker: int) -> Verdict:
        """A returning worker repeats lost work, if any; a new one computes at once, in a group of its own."""
        known = worker in self.members()
        if known and worker not in self.lost_work:
            return NOTHING
        if not known:
            self.place[worker] = len(self.groups)
            self.groups.append({worker})
        self.computing.add(worker)
        self.lost_work.discard(worker)
        return Verdict(go=(worker,))

    def regroup(self, groups: Sequence[Iterable[int]]) -> list[Verdict]:
        """Divide the members into new groups; return the updates of those that are complete thereby, in their order."""
        self._divide(groups)
        return [verdict for place in range(len(self.groups)) if (verdict := self._test(place)) != NOTHING]

    def _divide(self, groups: Sequence[Iterable[int]]) -> None:
        self.groups = [set(group) for group in groups] or [set()]
        self.place = dict.fromkeys(self.place, 0)
        self.place |= {worker: place for place, group in enumerate(self.groups) for worker in group}

    def _test(self, place: int) -> Verdict:
        group = self.groups[place]
        update = [grad for grad in self.buffer if self.place[grad.worker] == place]
        if not update or group & self.computing:
            return NOTHING
        self.buffer = [grad for grad in self.buffer if self.place[grad.worker] != place]
        self.computing |= group
        return Verdict(apply=by_worker(update), go=tuple(sorted(group)))

    def log_state(self) -> dict[str, float | int | str]:
        """The sizes of the groups, and the number of waiting gradients."""
        sizes = " ".join(str(len(group)) for group in self.groups if group)
        return {"groups": sizes, "arrived": len(self.buffer)}
