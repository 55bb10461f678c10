"""All-reduce on a ring: every replica sends to the next and receives from the previous neighbour only.

n - 1 steps of reduce-scatter, after which each holds the whole sum of one part, then n - 1 steps of all-gather
(Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009): 2 (n - 1) / n
of the vector cross every link. Part k is summed in the order k, k + 1, ..., k - 1 around the ring: always the same, so
runs are bit-equal to each other; a server adds in rank order, so the two differ by rounding, if at all.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from runtime.core.vectors import FloatVector, aligned_vector, server_range
from runtime.live.transport.acceptor import CALL_DEADLINE_S, Acceptor, call_acceptor
from runtime.live.transport.auth import Identity
from runtime.live.transport.frames import as_bytes
from runtime.live.transport.messages import Peer

BLOCK_FLOATS = 1 << 16
"""Block that is received and then added: 256 KiB, so that it is still in the processor's cache."""


class Step(NamedTuple):
    """Send one part to the next neighbour and receive another from the previous one, to add or to replace."""

    sends: int
    receives: int
    adds: bool


def steps(num_ranks: int, rank: int) -> Iterator[Step]:
    """The steps of ``rank``; in every step, sends and receives of all ranks match (pure)."""
    for turn in range(num_ranks - 1):
        yield Step((rank - turn) % num_ranks, (rank - turn - 1) % num_ranks, True)
    for turn in range(num_ranks - 1):
        yield Step((rank + 1 - turn) % num_ranks, (rank - turn) % num_ranks, False)


class Ring:
    """One replica's end of the ring. ``look`` is called while it waits; an exception from it ends the wait."""

    def __init__(self, me: Identity, secret: bytes, acceptor: Acceptor, look: Callable[[], None]) -> None:
        self.me, self.secret, self.acceptor, self.look = me, secret, acceptor, look
        self.generation = 0
        self.peers: Sequence[Peer] = ()
        self.excluded: tuple[int, ...] = ()
        """Members that take no part in the sums from now on."""
        self._ends: dict[tuple[Identity, bool], socket.socket] = {}
        """Connections by member, and whether this end has called: a sum of other members may come between two sums."""
        self._next: socket.socket | None = None
        self._previous: socket.socket | None = None
        self._spare = aligned_vector(BLOCK_FLOATS)
        self._poll = select.poll()

    def form(self, generation: int, peers: Sequence[Peer]) -> None:
        """Set the members from now on, in the ring's order; connections are made on demand."""
        if generation != self.generation:
            self.close()
        self.generation, self.peers = generation, peers

    def close(self) -> None:
        """Close all connections, so that waiting neighbours notice."""
        for end in self._ends.values():
            end.close()
        self._ends.clear()
        self._next = self._previous = None

    def all_reduce(self, vector: FloatVector, members: Sequence[int] | None = None) -> None:
        """Sum ``vector`` (float32, equal lengths) over ``members``, in place on each; None: all but those ``excluded``.

        Raises ``OSError`` when a member is gone; the vector is then invalid.
        """
        for key in [key for key in self._ends if key[0].id in self.excluded]:  # it has closed its end
            self._ends.pop(key).close()
        peers = [peer for peer in self.peers if peer.worker not in self.excluded]
        if members is not None:
            peers = [peer for peer in peers if peer.worker in members]
        if len(peers) > 1:
            self._sum(vector, peers, [peer.worker for peer in peers].index(self.me.id))

    def pass_on(self, vector: FloatVector, source: int, target: int) -> None:
        """Copy ``vector`` (float32, equal lengths) from one member to another, on both; others take no part."""
        peers, nothing = {peer.worker: peer for peer in self.peers}, vector[:0]
        if self.me.id == source:
            self._link(peers[target], None)
            self._exchange(as_bytes(vector), nothing, False)
        else:
            self._link(None, peers[source])
            self._exchange(as_bytes(nothing), vector, False)

    def _sum(self, vector: FloatVector, peers: Sequence[Peer], rank: int) -> None:
        """Sum over ``peers``, at least two, of which this is the one at ``rank``."""
        size = len(peers)
        self._link(peers[(rank + 1) % size], peers[rank - 1])
        ranges = [server_range(len(vector), size, part) for part in range(size)]
        parts = [vector[lo:hi] for lo, hi in ranges]
        for step in steps(size, rank):
            self._exchange(as_bytes(parts[step.sends]), parts[step.receives], step.adds)

    # ---- neighbours --------------------------------------------------------------------------------------------------

    def _link(self, following: Peer | None, previous: Peer | None) -> None:
        """Connect to the member to send to, and accept the connection of the one to receive from; None: nobody."""
        self._next = None if following is None else self._end(following, True)
        self._previous = None if previous is None else self._end(previous, False)
        self._poll = select.poll()
        for end, ready in ((self._next, select.POLLOUT), (self._previous, select.POLLIN)):
            if end is not None:
                self._poll.register(end, ready)

    def _end(self, peer: Peer, calls: bool) -> socket.socket:
        theirs = Identity("worker", peer.worker, peer.incarnation, self.generation)
        if (theirs, calls) not in self._ends:
            ours = Identity("worker", self.me.id, self.me.incarnation, self.generation)
            self._ends[theirs, calls] = (
                call_acceptor(peer.address, self.secret, ours) if calls else self.acceptor.take(theirs, self.look)
            )
        return self._ends[theirs, calls]

    # ---- data --------------------------------------------------------------------------------------------------------

    def _exchange(self, outgoing: memoryview, part: FloatVector, adds: bool) -> None:
        """Send ``outgoing`` and fill ``part`` at the same time: if all members only sent, none would read."""
        out, come = self._next, self._previous
        done, size = 0, len(part)
        target = self._target(part, done, adds)
        while outgoing or done < size:
            moved = 0
            if outgoing:
                assert out is not None
                with contextlib.suppress(BlockingIOError):
                    moved = out.send(outgoing, socket.MSG_DONTWAIT)
                    outgoing = outgoing[moved:]
            if done < size:
                assert come is not None
                flags = socket.MSG_DONTWAIT if outgoing else socket.MSG_WAITALL
                try:
                    got = come.recv_into(target, len(target), flags)
                except BlockingIOError:
                    if not outgoing:
                        self.look()  # only the socket's deadline has passed
                    elif not moved:
                        self._wait(done < size)
                    continue
                if not got:
                    raise ConnectionResetError("a neighbour has closed the connection")
                target = target[got:]
                if not target:
                    done = self._arrived(part, done, adds)
                    target = self._target(part, done, adds)
            elif outgoing and not moved:
                self._wait(False)

    def _target(self, part: FloatVector, done: int, adds: bool) -> memoryview:
        """Where the next bytes go: to their place or, to be added, into the spare block."""
        if not adds:
            return as_bytes(part[done:])
        return as_bytes(self._spare[: min(BLOCK_FLOATS, len(part) - done)])

    def _arrived(self, part: FloatVector, done: int, adds: bool) -> int:
        """Process a full target; returns how much of the part is complete."""
        if not adds:
            return len(part)
        end = min(len(part), done + BLOCK_FLOATS)
        np.add(part[done:end], self._spare[: end - done], out=part[done:end])
        return end

    def _wait(self, hears: bool) -> None:
        """Wait until a neighbour's socket is ready; call ``look`` when that takes long."""
        if self._previous is not None:
            self._poll.modify(self._previous, select.POLLIN if hears else 0)
        if not self._poll.poll(CALL_DEADLINE_S * 1e3):
            self.look()
