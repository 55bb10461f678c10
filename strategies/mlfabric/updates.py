"""What planners take and give: updates that wait for the network, their slots, and those that are dropped (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Links = Mapping[str, float]
"""Name of a link -> bytes per second that it carries, in the direction of the transfers; positive."""
Segment = tuple[float, float, float]
"""(start_s, end_s, bytes_per_s): a time in which a transfer has this rate."""
Reason = Literal["missed", "idle"]
"""``missed``: no slot is early enough for its deadline; ``idle``: waiting for it would leave the server idle."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """A gradient that a worker holds and would send.

    Attributes:
        id: whatever the caller knows it by; ties are broken by it, the lowest first.
        worker: who holds it.
        version: updates that had been applied to the parameters on which it was computed.
        size_bytes: length of the message, 0 or more.
        ready_s: when the worker announced it.
        path: links from the worker to the server, in any order; none: it is there at once.
    """

    id: int
    worker: int
    version: int
    size_bytes: float
    ready_s: float
    path: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place in the order: an update's transfer, and when and at which version it is applied.

    Attributes:
        update: what is sent.
        start_s: when its first byte leaves; what precedes it on its links may still be under way where they leave room.
        finish_s: when its last byte has arrived.
        commit_s: when it is applied: no earlier than what precedes it in the order.
        version: updates applied before this one.
        segments: the rates that are reserved for it on each link of its path; gaps between them are pauses.
    """

    update: Update
    start_s: float
    finish_s: float
    commit_s: float
    version: int
    segments: tuple[Segment, ...] = ()

    @property
    def delay(self) -> int:
        """Updates applied between reading the parameters and applying this one (its staleness)."""
        return self.version - self.update.version


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """An update that is not sent, and why."""

    update: Update
    reason: Reason


def deadline(update: Update, tau_max: float, version: int) -> float:
    """The last slot, counted from 0, in which the delay of ``update`` is at most ``tau_max``.

    Slot i is applied at ``version + i``, so that the delay there is ``version + i - update.version``.
    """
    return update.version + tau_max - version


def solo_s(update: Update, links: Links) -> float:
    """Duration of the transfer if it has its path for itself."""
    rate = min((links[name] for name in update.path), default=math.inf)
    return update.size_bytes / rate


def check(updates: tuple[Update, ...], links: Links) -> None:
    """Raise ``ValueError`` in one line if these updates cannot be planned on these links."""
    for name, rate in links.items():
        if not 0 < rate < math.inf:
            raise ValueError(f"link {name}: {rate} bytes/s, must be positive and finite")
    if len({update.id for update in updates}) < len(updates):
        raise ValueError("two pending updates have the same id")
    for update in updates:
        unknown = [name for name in update.path if name not in links]
        if unknown:
            raise ValueError(f"update {update.id}: its path has {unknown[0]}, which is not a known link")
        if not 0 <= update.size_bytes < math.inf:
            raise ValueError(f"update {update.id}: size_bytes={update.size_bytes}, must be 0 or more")
