"""What a gate answers, and the interface that all gates share."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar, Protocol, runtime_checkable

import msgspec

from strategies.protocol import Grad


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """``apply`` these as one update, ``drop`` those, then let ``go`` compute. All in the order in which to do it.

    ``opens`` says that a round begins although there is nothing to apply, because nobody of the last one is left.
    """

    apply: tuple[Grad, ...] = ()
    drop: tuple[Grad, ...] = ()
    go: tuple[int, ...] = ()
    opens: bool = False


NOTHING = Verdict()


@runtime_checkable
class Gate(Protocol):
    """A gate begins at the start and again after every ``Restored``, with all workers idle.

    Workers that the runtime is restarting stay members: a barrier waits for them, because their samples wait too, and
    they may be told to go like everybody else.

    ``rounds`` says that an update is one of all members, who then go together (so the parameters may as well live with
    the workers); ``drops`` that gradients may be dropped.
    """

    rounds: ClassVar[bool]
    drops: ClassVar[bool]

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """Forget everything: ``workers`` are idle, ``version`` updates are applied. Who may compute first."""
        ...

    def arrived(self, grad: Grad) -> Verdict:
        """A gradient (of zero samples when the data queue was empty) has arrived."""
        ...

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """A worker's process is gone; without ``restarting`` it leaves every count and every minimum."""
        ...

    def joined(self, worker: int) -> Verdict:
        """A restarted or a new worker is idle."""
        ...

    def log_state(self) -> dict[str, float | int | str]:
        """What is worth recording."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A gate of which its ``bound`` says everything: see :class:`strategies.protocol.BoundedStalenessHint`."""

    @property
    def bound(self) -> int | None:
        """Iterations that a worker may be ahead of the slowest; None: any number."""
        ...


@runtime_checkable
class Dividing(Protocol):
    """A gate whose workers compute their batch in parts."""

    def portion(self, worker: int) -> tuple[int, int]:
        """Which part is next, and how many there are."""
        ...


def by_worker(grads: Iterable[Grad]) -> tuple[Grad, ...]:
    """Rank order: sums must not depend on the order of arrival, or runs could never be bit-equal."""
    return tuple(sorted(grads, key=lambda grad: grad.worker))
