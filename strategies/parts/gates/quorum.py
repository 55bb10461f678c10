"""Gates that collect gradients until there are enough for an update; each gate decides how many are enough."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from math import ceil
from typing import ClassVar

from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.protocol import AnyEvent, Command, Grad, Wake, Woke


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
    record. ``version`` counts the updates, ``buffer`` holds the waiting gradients by their workers, some of which may
    have left.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False
    logged_as: ClassVar[str] = "arrived"

    @abstractmethod
    def enough(self) -> bool:
        """Whether the waiting gradients, one or more, make an update although some are ``missing``.

        Asked at every arrival and departure; the gradients of all members are always enough.
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
        if not self.roster.lose(worker, restarting, self.missing):
            return NOTHING
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
        return {self.logged_as: len(self.buffer)}


class TimedQuorumGate(QuorumGate):
    """Abstract: a :class:`QuorumGate` that is also asked when a time has come, though nothing arrives then.

    Besides :meth:`enough` it has :meth:`ask_at_s`, and mostly an ``observe_event`` that keeps ``event.t``, the time.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({Wake})
    _timer_s: float | None = None

    @abstractmethod
    def ask_at_s(self) -> float | None:
        """The time (seconds of the job) from which on what waits may be enough by itself; None: not known, or never.

        Asked after every event while a gradient waits; a time that changes is followed.
        """

    def then(self, event: AnyEvent) -> Sequence[Verdict | Command]:
        """Update if the time has come and what waits is enough; else a timer for that time, if it has none yet."""
        due_s = self.ask_at_s() if self.buffer else None
        if due_s is None:
            self._timer_s = None
            return ()
        if due_s <= event.t:
            verdict = self._test()
            return () if verdict == NOTHING else (verdict,)
        tag = f"enough for {self.version + 1}"  # a timer of an update that is made sets no other
        if due_s == self._timer_s and not (isinstance(event, Woke) and event.tag == tag):
            return ()
        self._timer_s = due_s  # again if it fired early: a clock may round
        return (Wake(at_s=due_s, tag=tag),)
