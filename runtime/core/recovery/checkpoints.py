"""Checkpoints of a job: one is complete when every saver has stored its part (pure)."""

from __future__ import annotations

import msgspec

from runtime.core.recovery.task import Key


class Pending(msgspec.Struct):
    """A checkpoint that is being written."""

    version: int
    missing: set[Key]


class Checkpoints:
    """``complete`` is the number of the last complete checkpoint; -1 before there is one.

    ``contents`` has version and data state of each that is complete or may become so.
    """

    def __init__(self) -> None:
        self.next = 0
        self.complete = -1
        self.contents: dict[int, tuple[int, bytes]] = {}
        self._pending: dict[int, Pending] = {}

    @property
    def last(self) -> int:
        """The number of the last one that is complete or may become so."""
        return max(self._pending, default=self.complete)

    def begin(self, version: int, state: bytes, savers: tuple[Key, ...]) -> int:
        """Begin a checkpoint; returns its number."""
        number = self.next
        self.next += 1
        self.contents[number] = (version, state)
        self._pending[number] = Pending(version, set(savers))
        return number

    def stored(self, number: int, key: Key) -> Pending | None:
        """Book a stored part; returns the checkpoint if that completes it."""
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
        """Abandon incomplete checkpoints, because a saver was lost."""
        self._pending.clear()
        self.contents = {number: kept for number, kept in self.contents.items() if number == self.complete}

    def _forget_before(self, number: int) -> None:
        self._pending = {other: one for other, one in self._pending.items() if other >= number}
        self.contents = {other: kept for other, kept in self.contents.items() if other >= number}
