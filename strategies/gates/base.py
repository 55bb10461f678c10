"""What a gate answers, and the interface that all gates share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

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


class Gate(Protocol):
    """A gate is created anew at the start and after every ``Restored``, with all ``workers`` idle.

    Workers that the runtime is restarting stay members: a barrier waits for them, because their samples wait too, and
    they may be told to go like everybody else.
    """

    def begin(self) -> tuple[int, ...]:
        """Workers that may compute first."""
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


def by_worker(grads: Iterable[Grad]) -> tuple[Grad, ...]:
    """Rank order: sums must not depend on the order of arrival, or runs could never be bit-equal."""
    return tuple(sorted(grads, key=lambda grad: grad.worker))
