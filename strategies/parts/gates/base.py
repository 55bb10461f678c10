"""The answers of a gate, the interface that all gates share, and the members of its rounds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol, final, runtime_checkable

import msgspec

from strategies.protocol import Grad, PushHalf, SumFragment


@final
class Roster:
    """``members`` are counted; ``lost_work`` are members whose Compute died with their process.

    ``newcomers`` wait to enter with the next update, which may take long, or never come: see ``deserted``.
    """

    def __init__(self, workers: Iterable[int]) -> None:
        self.members = set(workers)
        self.lost_work: set[int] = set()
        self.newcomers: set[int] = set()

    def all(self) -> tuple[int, ...]:
        """All members, by rank."""
        return tuple(sorted(self.members))

    @property
    def deserted(self) -> bool:
        """Whether only newcomers are left, so that there will be no update to enter with."""
        return bool(self.newcomers) and not self.members

    def lose(self, worker: int, restarting: bool, computing: AbstractSet[int]) -> bool:
        """Whether the worker is no longer waited for; one that restarts is, and repeats its Compute."""
        if restarting:
            self.lost_work |= computing & {worker}
            return False
        for crowd in (self.members, self.lost_work, self.newcomers):
            crowd.discard(worker)
        return True

    def admits(self, worker: int) -> bool:
        """Whether a worker that joins computes now: one that repeats lost work, or the first of all.

        A member that has lost nothing has its order or is waiting already; any other worker is a newcomer.
        """
        if worker not in self.members and self.members:
            self.newcomers.add(worker)
            return False
        if worker in self.members and worker not in self.lost_work:
            return False
        self.members.add(worker)
        self.lost_work.discard(worker)
        return True

    def enter(self) -> set[int]:
        """Make the newcomers members, and return them."""
        entered, self.newcomers = self.newcomers, set()
        self.members |= entered
        return entered


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """``apply`` these gradients as one update, ``drop`` those, then let the workers ``go`` compute, each in order.

    Workers ``step`` by these gradients alone first, then the parameters of workers in ``average`` become their mean,
    workers ``push`` halves, and share a ``fragment``; ``outer``: the update is of their moves, by the outer optimizer.
    ``opens``: a round begins with nothing to apply, because no member of the last one is left. ``children`` are the
    update's children, with their parents (``strategies.protocol.Apply``).
    """

    apply: tuple[Grad, ...] = ()
    drop: tuple[Grad, ...] = ()
    go: tuple[int, ...] = ()
    opens: bool = False
    children: tuple[tuple[int, int], ...] = ()
    step: tuple[Grad, ...] = ()
    average: tuple[int, ...] = ()
    push: tuple[PushHalf, ...] = ()
    fragment: SumFragment | None = None
    outer: bool = False


NOTHING = Verdict()


@runtime_checkable
class Gate(Protocol):
    """A gate begins at the start and again after every ``Restored``, with all workers idle.

    Workers that the runtime is restarting remain members: a barrier waits for them, because their samples are kept for
    them, and they may ``go`` like all others.

    With ``rounds`` the members go together after each update, so replicas can hold the parameters. A gate that
    ``attaches`` workers to others declares it, as does one that ``sums_meanwhile`` (``strategies.protocol.Strategy``).
    """

    @property
    def rounds(self) -> bool:
        """Whether every update is one of all members."""

    @property
    def drops(self) -> bool:
        """Whether gradients may be dropped."""

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """Reset: ``workers`` are idle, ``version`` updates are applied. Return the workers that may compute first."""

    def arrived(self, grad: Grad) -> Verdict:
        """Answer the arrival of a gradient (of zero samples when the data queue was empty)."""

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Answer the loss of a worker's process; unless ``restarting``, it leaves every count and every minimum."""

    def joined(self, worker: int) -> Verdict:
        """Answer that a restarted or a new worker is idle."""

    def log_state(self) -> dict[str, float | int | str]:
        """The state to record, as numbers and strings by name."""


@runtime_checkable
class Waiting(Protocol):
    """A gate whose workers wait for known others."""

    def waiting_groups(self) -> Sequence[Sequence[int]]:
        """Workers whose gradients make an update together (:meth:`strategies.protocol.Strategy.waiting_groups`)."""


@runtime_checkable
class TakesSums(Waiting, Protocol):
    """A gate of which it is known whose gradients make an update together, so they may be summed on their way."""

    def coming(self) -> AbstractSet[int]:
        """Members whose gradient is still to come: they compute, hold it, or it is on its way."""

    def sum_arrived(self, grad: Grad, workers: Sequence[int]) -> Verdict:
        """Answer the arrival of the sum of these workers' gradients; the first worker is ``grad.worker``."""

    def completed(self) -> Sequence[Verdict]:
        """Further updates that a sum has completed, in order: its workers may belong to several by now."""


@runtime_checkable
class Dividing(Protocol):
    """A gate whose workers compute their batch in parts."""

    def portion(self, worker: int) -> tuple[int, int]:
        """The index of the worker's next part, and the number of parts."""


@runtime_checkable
class Pairing(Protocol):
    """A gate that ``sums_meanwhile`` and whose workers average while they compute."""

    def pair(self, worker: int) -> tuple[int, ...]:
        """Workers that average now that ``worker``, one of them, has its next order; empty: none do."""


def by_worker(grads: Iterable[Grad]) -> tuple[Grad, ...]:
    """Gradients in rank order: a sum in order of arrival would differ in its last bits from run to run."""
    return tuple(sorted(grads, key=lambda grad: grad.worker))
