"""Shared buffers: memory that all tasks of one host share, for ``transport=shm``.

One anonymous memory file, created by the agent before it forks, so it has no name that could outlive the run and is
inherited. It holds parameter *slots* and one gradient row per worker. Servers write each version into a slot without
readers, each its own range of it; models read parameters, and servers gradients, in place. Nothing is copied, and a
worker that still computes on an old version keeps it.

Untouched pages use no memory, so a synchronous job, which uses two slots, does not pay for the many that an
asynchronous one may need.
"""

from __future__ import annotations

import mmap
import os

import numpy as np

from runtime.core.vectors import FloatVector
from runtime.live.transport.auxiliaries import AUXILIARIES

PAGE_FLOATS = mmap.PAGESIZE // 4
SPARE_SLOTS = 2
"""Slots in addition to one per reader: one for the current version, one for the next."""


def create() -> int:
    """Create empty shared buffers; returns their descriptor."""
    return os.memfd_create("stragglab-buffers", os.MFD_CLOEXEC)


def num_slots(num_workers: int) -> int:
    """Number of slots: every worker and auxiliary task may read a version of their own."""
    return num_workers + len(AUXILIARIES) + SPARE_SLOTS


class SharedBuffers:
    """One task's view: ``slots[k]`` and ``grads[worker]`` are float32 [num_floats]."""

    def __init__(self, fd: int, num_floats: int, num_workers: int) -> None:
        row = -(-max(num_floats, 1) // PAGE_FLOATS) * PAGE_FLOATS
        count = num_slots(num_workers)
        num_bytes = (count + num_workers) * row * 4
        # every task computes the same size, and growing to the current size changes nothing
        os.ftruncate(fd, num_bytes)
        memory = np.frombuffer(mmap.mmap(fd, num_bytes), dtype=np.float32)
        rows = [memory[start : start + num_floats] for start in range(0, len(memory), row)]
        self.slots: list[FloatVector] = rows[:count]
        self.grads: list[FloatVector] = rows[count:]


class SlotTable:
    """Which slot holds the current version, and which are still being read (pure).

    Every server keeps its own table and feeds it from the coordinator's commands alone, which reach all servers in
    the same order: so all choose the same slot without talking to each other.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.current = 0
        self._reading: dict[tuple[str, int], tuple[int, int]] = {}
        self._reader_of: dict[int, tuple[str, int]] = {}

    def deliver(self, who: tuple[str, int], ticket: int) -> int:
        """A reader gets the current version; its earlier slot is free. Returns the slot."""
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
        """A reader is gone or about to read a newer version."""
        if (reading := self._reading.pop(who, None)) is not None:
            self._reader_of.pop(reading[1], None)

    def advance(self) -> int:
        """Choose the slot of the next version: the first without readers."""
        taken = {slot for slot, _ in self._reading.values()} | {self.current}
        self.current = next(slot for slot in range(self.count) if slot not in taken)
        return self.current

    def reset(self) -> None:
        """Reset: no readers; the current version is in slot 0."""
        self.current = 0
        self._reading.clear()
        self._reader_of.clear()
