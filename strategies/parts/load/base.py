"""The interface that all load policies share: who computes how many samples."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from strategies.protocol import Compute


@runtime_checkable
class Load(Protocol):
    """Decides what each worker computes; it is started with the job, before the gate begins.

    Sizes may change while the job runs unless ``steady``. A policy that ``needs_rounds`` compares the times of whole
    rounds, or solves for them; others can be combined with any gate.
    """

    steady: ClassVar[bool]
    needs_rounds: ClassVar[bool]

    def order(self, worker: int) -> Compute:
        """The next Compute of ``worker``."""
        ...

    def resize(self, workers: tuple[int, ...]) -> None:
        """New sizes for these workers may hold from now on; they should sum to the global batch.

        With a gate of rounds, ``workers`` are about to get their orders together: called at the start, after a restore,
        and whenever an update lets them go; exactly once per round and with all of its members. With any other gate
        they are all current workers; it is called once as many gradients have been applied as there are workers, and
        each takes its new size with its next order. Sizes are what is *assigned*: if a worker leaves within the round,
        its samples are missing, and the update is the mean over those of the others.
        """
        ...
