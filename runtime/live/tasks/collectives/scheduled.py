"""All-reduce by any schedule of transfers, such as a tree, over the connections of the ring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import final

from runtime.core.collectives.known import schedule_of
from runtime.core.collectives.schedule import Transfer
from runtime.core.vectors import FloatVector, server_range
from runtime.live.tasks.collectives.ring import Ring
from runtime.live.transport.acceptor import Acceptor
from runtime.live.transport.auth import Identity
from runtime.live.transport.frames import as_bytes
from runtime.live.transport.messages import Peer

Turn = tuple[Transfer | None, Transfer | None]
"""The messages of a rank in a round."""


@lru_cache(maxsize=16)
def turns(collective: str, num_ranks: int, rank: int) -> tuple[int, tuple[Turn, ...]]:
    """(parts of the vector, the turns of ``rank`` in the rounds that it is in); pure.

    In no round of a schedule of a single block does a rank send, or receive, twice.
    """
    schedule, found = schedule_of(collective, num_ranks), list[Turn]()
    for transfers in schedule.rounds:
        sends = [one for one in transfers if one.source == rank]
        receives = [one for one in transfers if one.target == rank]
        assert len(sends) < 2
        assert len(receives) < 2
        if sends or receives:
            found.append((sends[0] if sends else None, receives[0] if receives else None))
    return schedule.parts, tuple(found)


@final
class Scheduled(Ring):
    """One replica's end of a sum by the schedule of ``collective``; a ring where it has none for so many members.

    Every part of the sum is complete on one member first, and the others copy it, so it is the same on all.
    """

    def __init__(
        self, collective: str, me: Identity, secret: bytes, acceptor: Acceptor, look: Callable[[], None]
    ) -> None:
        super().__init__(me, secret, acceptor, look)
        self.name = collective

    def _sum(self, vector: FloatVector, peers: Sequence[Peer], rank: int) -> None:
        parts, mine = turns(self.name, len(peers), rank)
        ends = [0, *(server_range(len(vector), parts, part)[1] for part in range(parts))]
        for sends, receives in mine:
            following = None if sends is None else peers[sends.target]
            self._link(following, None if receives is None else peers[receives.source])
            outgoing = vector[:0] if sends is None else vector[ends[sends.lo] : ends[sends.hi]]
            part = vector[:0] if receives is None else vector[ends[receives.lo] : ends[receives.hi]]
            self._exchange(as_bytes(outgoing), part, receives is not None and receives.adds)
