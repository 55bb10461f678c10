"""Gates that collect gradients until there are enough for an update; what is enough is the gate's own decision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from math import ceil
from typing import ClassVar

from strategies.parts.gates.base import NOTHING, Verdict, by_worker
from strategies.parts.gates.roster import Roster
from strategies.protocol import Grad


def three_quarters(num_workers: int) -> int:
    """Three quarters of the workers, rounded up: the default K."""
    return ceil(0.75 * num_workers)


def check_most(name: str, value: int | None, num_workers: int) -> None:
    """Raise ``ValueError`` if ``value`` exceeds the number of workers; None stands for the default."""
    if value is not None and value > num_workers:
        raise ValueError(f"{name}={value}: must be at most the number of workers ({num_workers})")


class QuorumGate(ABC):
    """Abstract: a gate is a dataclass with :meth:`enough`. It may have ``start`` and ``observe_event``, too.

    A worker whose gradient waits is idle until the update; no other is interrupted. New workers enter with the next
    update, or at once if no member is left. A worker that restarts is waited for, one that left is not.

    ``drops``: a gradient that was computed on older parameters than the current ones is dropped, and its worker
    computes again; otherwise it waits like all others. ``logged_as`` names the number of waiting gradients in the
    record. ``version`` counts the updates, ``buffer`` holds the waiting gradients by their workers, of whom some may
    have left.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False
    logged_as: ClassVar[str] = "arrived"

    @abstractmethod
    def enough(self) -> bool:
        """Whether the waiting gradients, one or more, make an update although some are ``missing``.

        Asked at every arrival and departure; what all members have delivered is always enough.
        """

    @property
    def members(self) -> set[int]:
        """The workers that take part, restarting ones included."""
        return self.roster.members

    @property
    def missing(self) -> set[int]:
        """The members whose gradient has not arrived since the last update."""
        return self.roster.members - self.buffer.keys()

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """Every worker computes on the current parameters, with nothing waiting."""
        self.roster = Roster(workers)
        self.version = version
        self.buffer: dict[int, Grad] = {}
        return self.roster.all()

    def arrived(self, grad: Grad) -> Verdict:
        """Keep the gradient, which may complete the update; or drop a late one, whose worker computes again."""
        if self.drops and grad.samples and grad.version < self.version:
            return Verdict(drop=(grad,), go=(grad.worker,))
        self.buffer[grad.worker] = grad
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Keep waiting for a worker that restarts; the departure of another may complete the update."""
        if restarting:
            self.roster.lost_work |= self.roster.members & {worker} - self.buffer.keys()
            return NOTHING
        self.roster.leave(worker)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member computes if it lost its work; a new one enters with the next update."""
        return Verdict(go=(worker,)) if self.roster.admits(worker) else NOTHING

    def _test(self) -> Verdict:
        if not (self.buffer or self.roster.deserted):
            return NOTHING
        if not (self.roster.members <= self.buffer.keys() or self.enough()):
            return NOTHING
        update, self.buffer = by_worker(self.buffer.values()), {}
        self.version += any(grad.samples for grad in update)
        go = {grad.worker for grad in update} | self.roster.enter()
        return Verdict(apply=update, go=tuple(sorted(go & self.roster.members)), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        """The number of gradients that wait for the update."""
        return {self.logged_as: len(self.buffer)}
