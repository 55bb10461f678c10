"""Measured update norms that are pending: every server returns its part, and the parts are summed in order (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, final


class _Pending(NamedTuple):
    version: int
    parts: dict[int, float]


@final
class Measuring:
    """``servers()``: the holders of parameters, in the order in which parts are summed; none if there are replicas.

    Every replica has the whole sum, so the first that reports it is enough. A measurement whose parts are lost is
    forgotten with the rollback that follows: nobody waits for one.
    """

    def __init__(self, servers: Callable[[], Sequence[int]]) -> None:
        self.servers = servers
        self._pending: dict[int, _Pending] = {}
        self._next_ticket = 0

    def ask(self, version: int) -> int:
        """The ticket under which servers return their parts of the update that results in ``version``."""
        ticket = self._next_ticket
        self._next_ticket += 1
        self._pending[ticket] = _Pending(version, {})
        return ticket

    def part(self, server: int, ticket: int, sqr_norm: float) -> tuple[int, float] | None:
        """Add a server's part. The last one completes the measurement: (version, squared norm)."""
        pending = self._pending.get(ticket)
        if pending is None:
            return None
        pending.parts[server] = sqr_norm
        expected = self.servers() or (server,)
        if not pending.parts.keys() >= set(expected):
            return None
        del self._pending[ticket]
        return pending.version, sum(pending.parts[number] for number in expected)

    def void(self) -> None:
        """All roll back: parts still to come are ignored."""
        self._pending.clear()
