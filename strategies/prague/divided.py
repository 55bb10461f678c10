"""The gate of Prague: it divides workers at random into groups, whose members wait for each other only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from reading.ranges import NonNegativeInt, PositiveInt, check_settings
from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.parts.shuffled import shuffled
from strategies.protocol import Average, Command, Grad, StepAlone, split_evenly


@final
@dataclass(kw_only=True)
class DividedGate:
    """A worker steps alone ``period`` times, then waits for the other members of its group, then all average.

    ``groups`` has the group of every worker that is in one, ``waiting`` are the workers that wait for their group,
    ``averages`` counts the groups that each worker has completed. ``missing`` are the members that still step before
    the next update of all. That comes when a worker finds no data or ``common_every`` is reached: nobody waits for a
    group from then on. A loss voids all this, since replicas begin again from the last update; newcomers enter with
    the next one.
    """

    rounds: ClassVar[bool] = True
    drops: ClassVar[bool] = False
    needs: ClassVar[frozenset[type[Command]]] = frozenset({StepAlone, Average})

    group_size: PositiveInt = 2
    period: PositiveInt = 1
    max_behind: PositiveInt = 2
    common_every: PositiveInt | None = None
    group_seed: NonNegativeInt = 0

    def __post_init__(self) -> None:
        check_settings(self)

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster = Roster(workers)
        self.averages: Counter[int] = Counter()
        self.divisions = 0
        self._open()
        return self.roster.all()

    def _open(self) -> None:
        self.missing = set(self.roster.members)
        self.buffer: list[Grad] = []
        self.steps: Counter[int] = Counter()
        self.groups: dict[int, tuple[int, ...]] = {}
        self.waiting: set[int] = set()
        self.closing = False

    # ---- events ------------------------------------------------------------------------------------------------------

    def arrived(self, grad: Grad) -> Verdict:
        """Step by the gradient, and average if that was the last of its group."""
        worker, step = grad.worker, tuple[Grad, ...]()
        if grad.samples:
            self.buffer.append(grad)
            self.steps[worker] += 1
            step = (grad,)
        if not grad.samples or self._is_due():
            self.closing = True
            self.missing -= self.waiting
        if self.closing:
            self.missing.discard(worker)
            return Verdict(step=step) if self.missing else self._complete(step)
        if self.steps[worker] % self.period:
            return Verdict(step=step, go=(worker,))
        return self._meet(worker, step)

    def _is_due(self) -> bool:
        return self.common_every is not None and len(self.buffer) >= self.common_every * len(self.roster.members)

    def _meet(self, worker: int, step: tuple[Grad, ...]) -> Verdict:
        if worker not in self.groups:
            self._divide(worker)
        group = self.groups[worker]
        self.waiting.add(worker)
        if not self.waiting.issuperset(group):
            return Verdict(step=step)
        self.averages.update(group)
        if len(group) == len(self.roster.members):
            return self._complete(step)
        self.waiting.difference_update(group)
        for member in group:
            del self.groups[member]
        return Verdict(step=step, average=group if len(group) > 1 else (), go=group)

    def _divide(self, asking: int) -> None:
        """Group Division, with the slowdown filter; the worker that asks is in it."""
        least = self.averages[asking] - self.max_behind
        free = [one for one in self.roster.all() if one not in self.groups and self.averages[one] > least]
        drawn = shuffled(free, self.group_seed, self.divisions)
        self.divisions += 1
        for size in split_evenly(len(drawn), -(-len(drawn) // self.group_size)):
            group, drawn = tuple(sorted(drawn[:size])), drawn[size:]
            self.groups |= dict.fromkeys(group, group)

    def _complete(self, step: tuple[Grad, ...] = ()) -> Verdict:
        """The update of all; a newcomer counts as far as the first of the others."""
        update = by_worker(self.buffer)
        most = max(self.averages.values(), default=0)
        for newcomer in self.roster.enter():
            self.averages[newcomer] = most
        self._open()
        return Verdict(apply=update, go=self.roster.all(), opens=not update, step=step, outer=True)

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Forget a newcomer that has not entered; the loss of a member is followed by a new beginning."""
        self.roster.lose(worker, restarting, self.missing - self.waiting)
        return NOTHING

    def joined(self, worker: int) -> Verdict:
        """A newcomer waits for the next update, unless it is the first of all."""
        opens = not self.roster.members
        if not self.roster.admits(worker):
            return NOTHING
        self.missing.add(worker)
        return Verdict(go=(worker,), opens=opens)

    def waiting_groups(self) -> list[list[int]]:
        return [list(group) for group in sorted(set(self.groups.values()))]

    def log_state(self) -> dict[str, float | int | str]:
        return {"groups": len(set(self.groups.values())), "waiting": len(self.waiting), "steps_alone": len(self.buffer)}
