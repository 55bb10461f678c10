"""The interface of a plug-in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from strategies.protocol.commands import AnyCommand, Apply, Command, Compute
from strategies.protocol.events import AnyEvent

DATA_POLICIES = ("dynamic", "shared", "even")
"""Of the data service; see :class:`Strategy`."""


class BoundedStalenessHint(msgspec.Struct, frozen=True, kw_only=True):
    """A strategy that is a bounded gate and nothing else: what a runtime may then know beforehand.

    Every worker computes its nominal batch whenever it is at most ``bound`` iterations ahead of the slowest (None:
    always), and each gradient is an update of its own, with ``lr_scale``; with bound 0 a round is one update.
    """

    bound: int | None
    lr_scale: float | None = None
    """Learning-rate factor of an update of one gradient; None: the worker's share of the global batch."""


@runtime_checkable
class Strategy(Protocol):
    """What a plug-in implements: hyper-parameters as dataclass fields, decisions in :meth:`handle`.

    A strategy says that it is one by inheriting from this. What it says nothing about is as written here; all else is
    for the taking, since an interface has no behaviour of its own to override.

    ``data`` names the allocation policy of the sharding service that the system assumes: ``dynamic`` (workers draw
    shards), ``shared`` (and share what they have drawn when the queue is empty) or ``even`` (a static part of every
    epoch for each worker).
    """

    needs: frozenset[type[Command]] = frozenset({Compute, Apply})
    """Commands that the runtime must be able to carry out; checked before the run starts."""

    topologies: frozenset[str] = frozenset({"ps"})
    """Where its parameters may live: ``ps``; ``allreduce`` where every update is one of all current workers."""

    watches_servers: bool = False
    """Whether it is notified of ``Updated``; for others these reports go into the record only."""

    rescales: bool = False
    """Whether it weighs gradients otherwise than to the mean over their samples."""

    data: str = "dynamic"

    validation_samples: int = 0
    """Training samples that are held out for the reference gradient of ``Score``, and never trained on."""

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Return what to do now that ``event`` has happened."""
        raise NotImplementedError

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` naming the field when the hyper-parameters do not fit ``num_workers`` workers."""
        return None

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """Likewise when they leave no way to split the global batch among the workers."""
        return None

    def validate_length(self, epochs: int | None) -> None:
        """Likewise when they need a job of so many epochs, or of an end at all (None: it ends by time)."""
        return None

    def staleness_hint(self) -> BoundedStalenessHint | None:
        """All decisions in short, where that is possible; a runtime without faults may use it to go faster."""
        return None

    def log_state(self) -> dict[str, float | int | str]:
        """What is worth plotting about the state of the decision; recorded beside every event that changed it.

        What ``warning`` holds at the end, if anything, stands in the run's summary: readers should know it.
        """
        return {}
