"""Which checkpoints there are: one is complete when everybody who keeps a part has stored it (pure)."""

from __future__ import annotations

import msgspec

from runtime.core.recovery.task import Key


class Pending(msgspec.Struct):
    """A checkpoint that is being written."""

    version: int
    missing: set[Key]


class Checkpoints:
    """``complete`` is the number of the last that is; -1 before there is any.

    ``contents`` has version and data state of each that is complete or may be yet.
    """

    def __init__(self) -> None:
        self.next = 0
        self.complete = -1
        self.contents: dict[int, tuple[int, bytes]] = {}
        self._pending: dict[int, Pending] = {}

    def begin(self, version: int, state: bytes, keepers: tuple[Key, ...]) -> int:
        """The number of a new one."""
        number = self.next
        self.next += 1
        self.contents[number] = (version, state)
        self._pending[number] = Pending(version, set(keepers))
        return number

    def stored(self, number: int, key: Key) -> Pending | None:
        """A part is stored; the checkpoint if that was the last part of it."""
        pending = self._pending.get(number)
        if pending is None or key not in pending.missing:
            return None
        pending.missing.discard(key)
        if pending.missing:
            return None
        self.complete = number
        self._forget_before(number)
        del self._pending[number]
        return pending

    def abandon(self) -> None:
        """Somebody was lost: what is not complete never will be."""
        self._pending.clear()
        self.contents = {number: kept for number, kept in self.contents.items() if number == self.complete}

    def _forget_before(self, number: int) -> None:
        self._pending = {other: one for other, one in self._pending.items() if other >= number}
        self.contents = {other: kept for other, kept in self.contents.items() if other >= number}
