"""Which checkpoints there are (pure): one is complete when every server has stored its part of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Pending(msgspec.Struct):
    """A checkpoint that is being written."""

    version: int
    begun_s: float
    stored_by: set[int] = msgspec.field(default_factory=set)


class Checkpoints:
    """``complete`` is the number of the last that is; -1 before there is any."""

    def __init__(self, num_servers: int) -> None:
        self.num_servers = num_servers
        self.next = 0
        self.complete = -1
        self._pending: dict[int, Pending] = {}
        self._awaited: tuple[int, Callable[[], None]] | None = None

    def begin(self, version: int, now_s: float) -> int:
        """The number of a new one."""
        number = self.next
        self.next += 1
        self._pending[number] = Pending(version, now_s)
        return number

    def stored(self, number: int, server: int) -> Pending | None:
        """A server has stored its part; the checkpoint if that was the last part and nothing newer is complete."""
        if (pending := self._pending.get(number)) is None:
            return None
        pending.stored_by.add(server)
        if len(pending.stored_by) < self.num_servers or number <= self.complete:
            return None
        self.complete = number
        self._pending = {other: one for other, one in self._pending.items() if other > number}
        return pending

    def abandon(self) -> None:
        """A server was lost: what was not complete never will be."""
        self._pending.clear()

    def when_complete(self, call: Callable[[], None]) -> None:
        """Call it once, when the newest one is complete."""
        self._awaited = (self.next - 1, call)

    def tell(self) -> None:
        """One more is complete."""
        if self._awaited is not None and self.complete >= self._awaited[0]:
            call, self._awaited = self._awaited[1], None
            call()
