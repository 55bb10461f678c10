"""The board: memory that all tasks of one host share, for ``transport=shm``.

One anonymous memory file, made by the agent before it forks, so it has no name that could outlive the run and needs no
passing around. It holds parameter *slots* and one gradient row per worker. Servers write each version into a slot that
nobody reads, each its own range of it; models read their parameters, and servers the gradients, where they lie. Nothing
is copied, and a worker that is still computing on an old version keeps it.

Pages that are never touched cost nothing, so the many slots that an asynchronous job may need are free to a synchronous
one, which uses two.
"""

from __future__ import annotations

import mmap
import os

import numpy as np

from runtime.core.vectors import FloatVector

PAGE_FLOATS = mmap.PAGESIZE // 4
SPARE_SLOTS = 2
"""One for the version of now and one to write the next into, beside one per reader."""


def create() -> int:
    """The descriptor of an empty board."""
    return os.memfd_create("stragglab-board", os.MFD_CLOEXEC)


def num_slots(num_workers: int) -> int:
    """Every worker, the evaluator and the scorer may read a version of their own."""
    return num_workers + 2 + SPARE_SLOTS


class SharedBuffers:
    """One task's view: ``slots[k]`` and ``grads[worker]`` are float32 [num_floats]."""

    def __init__(self, fd: int, num_floats: int, num_workers: int) -> None:
        row = -(-max(num_floats, 1) // PAGE_FLOATS) * PAGE_FLOATS
        count = num_slots(num_workers)
        num_bytes = (count + num_workers) * row * 4
        # every task computes the same size, and growing to the size that is there already changes nothing
        os.ftruncate(fd, num_bytes)
        memory = np.frombuffer(mmap.mmap(fd, num_bytes), dtype=np.float32)
        rows = [memory[start : start + num_floats] for start in range(0, len(memory), row)]
        self.slots: list[FloatVector] = rows[:count]
        self.grads: list[FloatVector] = rows[count:]


class SlotTable:
    """Which slot holds the version of now, and which are still being read (pure).

    Every server keeps one of its own and feeds it from the coordinator's commands alone, which come to all servers in
    the same order: so all choose the same slot without talking to each other.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.current = 0
        self._reading: dict[tuple[str, int], tuple[int, int]] = {}
        self._reader_of: dict[int, tuple[str, int]] = {}

    def deliver(self, who: tuple[str, int], ticket: int) -> int:
        """A reader gets the version of now; what it read before is free. Returns the slot."""
        self.release_reader(who)
        self._reading[who] = (self.current, ticket)
        self._reader_of[ticket] = who
        return self.current

    def release(self, tickets: tuple[int, ...]) -> None:
        """The gradients of these deliveries have been used or dropped, so their readers have finished reading."""
        for ticket in tickets:
            if (who := self._reader_of.pop(ticket, None)) is not None:
                self._reading.pop(who, None)

    def release_reader(self, who: tuple[str, int]) -> None:
        """A reader is gone or about to read something newer."""
        if (reading := self._reading.pop(who, None)) is not None:
            self._reader_of.pop(reading[1], None)

    def advance(self) -> int:
        """Choose the slot of the next version: the first that nobody reads."""
        taken = {slot for slot, _ in self._reading.values()} | {self.current}
        self.current = next(slot for slot in range(self.count) if slot not in taken)
        return self.current

    def reset(self) -> None:
        """Nobody reads; the version of now is in slot 0."""
        self.current = 0
        self._reading.clear()
        self._reader_of.clear()
