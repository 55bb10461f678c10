"""What a gate answers, and the interface that all gates share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol, runtime_checkable

import msgspec

from strategies.protocol import Grad


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """``apply`` these gradients as one update, ``drop`` those, then let the workers ``go`` compute, each in order.

    ``opens``: a round begins with nothing to apply, because no member of the last one is left. ``children`` are those
    of the update, with their parents (``strategies.protocol.Apply``).
    """

    apply: tuple[Grad, ...] = ()
    drop: tuple[Grad, ...] = ()
    go: tuple[int, ...] = ()
    opens: bool = False
    children: tuple[tuple[int, int], ...] = ()


NOTHING = Verdict()


@runtime_checkable
class Gate(Protocol):
    """A gate begins at the start and again after every ``Restored``, with all workers idle.

    Workers that the runtime is restarting remain members: a barrier waits for them, because their samples are kept for
    them, and they may ``go`` like all others.

    ``rounds``: every update is one of all members, who then go together (so replicas can hold the parameters);
    ``drops``: gradients may be dropped. One that ``attaches`` workers to others says so as a third.
    """

    @property
    def rounds(self) -> bool: ...

    @property
    def drops(self) -> bool: ...

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """Reset: ``workers`` are idle, ``version`` updates are applied. Return the workers that may compute first."""
        ...

    def arrived(self, grad: Grad) -> Verdict:
        """Answer the arrival of a gradient (of zero samples when the data queue was empty)."""
        ...

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Answer the loss of a worker's process; unless ``restarting``, it leaves every count and every minimum."""
        ...

    def joined(self, worker: int) -> Verdict:
        """Answer that a restarted or a new worker is idle."""
        ...

    def log_state(self) -> dict[str, float | int | str]:
        """The state to record, as numbers and strings by name."""
        ...


@runtime_checkable
class Waiting(Protocol):
    """A gate of which it is known who waits for whom."""

    def waiting_groups(self) -> Sequence[Sequence[int]]:
        """Workers whose gradients make an update together (:meth:`strategies.protocol.Strategy.waiting_groups`)."""
        ...


@runtime_checkable
class TakesSums(Waiting, Protocol):
    """A gate of which it is known whose gradients make an update together, so they may be summed on their way."""

    def coming(self) -> AbstractSet[int]:
        """Members whose gradient is still to come: they compute, hold it, or it is on its way."""
        ...

    def sum_arrived(self, grad: Grad, workers: Sequence[int]) -> Verdict:
        """Answer the arrival of the sum of these workers' gradients, of whom the first is ``grad.worker``."""
        ...

    def completed(self) -> Sequence[Verdict]:
        """Further updates that a sum has completed, in order: its workers may belong to several by now."""
        ...


@runtime_checkable
class Dividing(Protocol):
    """A gate whose workers compute their batch in parts."""

    def portion(self, worker: int) -> tuple[int, int]:
        """The index of the worker's next part, and the number of parts."""
        ...


def by_worker(grads: Iterable[Grad]) -> tuple[Grad, ...]:
    """Gradients in rank order: a sum in order of arrival would differ in its last bits from run to run."""
    return tuple(sorted(grads, key=lambda grad: grad.worker))
