"""How fast this machine's memory is: the processor time of a copy, which the driver makes now and then during a job.

Virtual machines share memory with others, so the same work takes longer in one minute than in the next (docs/hosts.md).
The driver belongs to no emulated host, so its copies take nothing of a host's quota.
"""

from __future__ import annotations

import time
from collections.abc import Callable

COPY_BYTES = 4 << 20
"""More than a processor keeps to itself, so a copy uses what virtual machines share. It takes 0.1 to 0.8 ms."""
PERIOD_S = 0.2
"""Between two copies, which so take less than 0.4 % of a processor."""


class MemoryProbe:
    """Copies ``COPY_BYTES`` bytes; ``clock`` is in seconds of the calling thread's processor time.

    Wall time would count whatever else has the processor meanwhile.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._source = memoryview(b"\1" * COPY_BYTES)  # zeros may all lie in one page
        self._target = memoryview(bytearray(self._source))  # a bytearray itself would copy twice

    def read(self) -> float:
        """Copy once; returns the seconds of processor time that it took."""
        began_s = self._clock()
        self._target[:] = self._source
        return self._clock() - began_s
