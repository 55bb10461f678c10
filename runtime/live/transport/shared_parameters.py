"""Where the parameters of a server and of its replicas lie when there are replicas: memory that all of them share.

Nobody works with the parameters of another: they are only compared, so that the distance in the record is a measured
one. The memory is an anonymous file of the agent's (``buffers.py``), a row for each server of the start.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator

import numpy as np

from runtime.core.vectors import FloatVector
from runtime.live.transport.buffers import PAGE_FLOATS
from runtime.live.transport.messages import Divergence
from runtime.training.norms import sum_sqr_norm

NEITHER, HOLDS, FOLLOWS = range(3)
"""The owner of a row: neither, the server, or a replica with a copy."""
WRITES, VERSION, GENERATION, ROLE = range(4)
HEADER = 4
"""Numbers about a row; ``WRITES`` is odd while its parameters change."""
TRIES = 3
"""How often a row is read again that changes meanwhile: its owner measures after the change."""


class SharedParameters:
    """One server's view of all rows; ``params`` (float32 [num_floats]) is its own."""

    def __init__(self, fd: int, num_floats: int, num_servers: int, own: int) -> None:
        row = -(-max(num_floats, 1) // PAGE_FLOATS) * PAGE_FLOATS * 4
        about = -(-num_servers * HEADER * 8 // mmap.PAGESIZE) * mmap.PAGESIZE
        os.ftruncate(fd, about + num_servers * row)
        memory = mmap.mmap(fd, about + num_servers * row)
        self._about = np.frombuffer(memory, np.int64, num_servers * HEADER).reshape(num_servers, HEADER)
        self._rows = [np.frombuffer(memory, np.float32, num_floats, about + n * row) for n in range(num_servers)]
        self.own = own
        self.params: FloatVector = self._rows[own]
        self._about[own] = 0

    def begin(self) -> None:
        """Our parameters change from now on."""
        self._about[self.own, WRITES] |= 1

    def end(self, version: int, generation: int, role: int) -> None:
        """Our parameters have ``version`` now, whether they have changed or not."""
        self.begin()
        self._about[self.own, VERSION:] = version, generation, role
        self._about[self.own, WRITES] += 1

    def divergence(self) -> Iterator[Divergence]:
        """Our distance from every replica or, if we are one, from the server."""
        for other in range(len(self._rows)):
            if other != self.own and (found := self._compare(other)) is not None:
                yield found

    def _compare(self, other: int) -> Divergence | None:
        ours = self._about[self.own].tolist()
        for _ in range(TRIES):
            theirs = self._about[other].tolist()
            if theirs[GENERATION] != ours[GENERATION] or {theirs[ROLE], ours[ROLE]} != {HOLDS, FOLLOWS}:
                return None
            if theirs[WRITES] & 1:
                continue
            distance = math.sqrt(sum_sqr_norm([self.params, self._rows[other]], [1.0, -1.0]))
            if self._about[other].tolist() == theirs:
                follower, followed = (theirs, ours) if ours[ROLE] == HOLDS else (ours, theirs)
                number = other if ours[ROLE] == HOLDS else self.own
                behind = followed[VERSION] - follower[VERSION]
                return Divergence(server=number, version=follower[VERSION], behind=behind, distance=distance)
        return None
