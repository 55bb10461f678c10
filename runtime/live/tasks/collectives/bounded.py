"""A transposed sum that ends in time: a member goes on without the messages that are late, as in OptiReduce.

Of K rounds, each with a message to and from a member, k end after k / K of ``bound_s`` seconds from its beginning
(Warraich et al., NSDI 2025). A message that is not complete by the end of its round is lost as a whole: its target
neither adds nor stores it, so its own values stay. ``runtime/virtual/tasks/collective_sum.py`` is the model.

TCP loses nothing and keeps the order. So every message has a header with its sum and its round, and what arrives after
its round is read and thrown away. A message that has begun to leave must leave whole, perhaps in the next sum; later
messages to the same member wait behind it. A message that has not begun by the end of its round never leaves.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import final

import numpy as np

from runtime.core.vectors import PARAMETER_BYTES, FloatVector, aligned_vector, server_range
from runtime.live.tasks.collectives.ring import Ring
from runtime.live.tasks.collectives.scheduled import turns
from runtime.live.transport.acceptor import CALL_DEADLINE_S, Acceptor
from runtime.live.transport.auth import Identity
from runtime.live.transport.frames import HEADER_BYTES, POST, as_bytes, pack, unpack
from runtime.live.transport.messages import Late, Peer

Place = tuple[int, int]
"""The number of a sum, and of a round in it: where a message belongs."""


@final
class Outgoing:
    """Messages on their way to one member; nothing here waits."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.messages: deque[memoryview] = deque()
        self._tried = False
        """Whether some of the first message may have left."""

    def put(self, place: Place, generation: int, part: FloatVector) -> None:
        """Let a copy of a part leave after the messages that are here."""
        header = pack(POST, generation, place[1], place[0], part.nbytes)
        self.messages.append(memoryview(b"".join((header, as_bytes(part)))))

    def send(self) -> None:
        """Send what the connection takes now; raises ``OSError`` when the member is gone."""
        with suppress(BlockingIOError):
            while self.messages:
                self._tried = True
                self.messages[0] = self.messages[0][self.sock.send(self.messages[0], socket.MSG_DONTWAIT) :]
                if not self.messages[0]:
                    self.messages.popleft()
                    self._tried = False

    def give_up(self) -> None:
        """Its round is over: forget what has not begun to leave."""
        while len(self.messages) > self._tried:
            self.messages.pop()


@final
class Incoming:
    """Messages from one member, in its order; nothing here waits."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._header = bytearray(HEADER_BYTES)
        self._got = 0
        """Bytes of the header that are here."""
        self._place: Place | None = None
        """Of the message whose header is complete."""
        self._left = 0
        """Bytes of it that are still to come."""

    def waits(self, place: Place) -> bool:
        """Whether its next message is for later than this place."""
        return self._place is not None and self._place > place

    def receive(self, place: Place, into: memoryview | None, waste: memoryview) -> bool:
        """Receive what is here: the message of this place into its buffer, if it has one, older ones into the waste.

        Returns whether the message of this place is complete. Raises ``OSError`` when the member is gone.
        """
        with suppress(BlockingIOError):
            while True:
                if self._place is None:
                    self._got += self._read(memoryview(self._header)[self._got :])
                    if self._got == HEADER_BYTES:
                        self._begin(place, into)
                elif self._place > place or (self._place == place and into is None):
                    return False
                elif not self._left:
                    complete, self._place = self._place == place, None
                    if complete:
                        return True
                elif self._place == place:
                    assert into is not None
                    self._left -= self._read(into[len(into) - self._left :])
                else:
                    self._left -= self._read(waste[: self._left])
        return False

    def _begin(self, place: Place, into: memoryview | None) -> None:
        """A header is complete."""
        about, self._got = unpack(self._header), 0
        self._place, self._left = (about.version, about.ticket), about.length
        if self._place == place and into is not None and about.length != len(into):
            raise ConnectionError(f"refused {about}: a part has {len(into)} bytes")

    def _read(self, view: memoryview) -> int:
        got = self.sock.recv_into(view, len(view), socket.MSG_DONTWAIT)
        if not got:
            raise ConnectionResetError("a member has closed the connection")
        return got


@final
class Bounded(Ring):
    """One replica's end of a transposed sum that ends in ``bound_s`` seconds. Set ``number`` before each sum.

    The first sum of some members connects them, before the time counts.
    """

    def __init__(
        self, bound_s: float, me: Identity, secret: bytes, acceptor: Acceptor, look: Callable[[], None]
    ) -> None:
        super().__init__(me, secret, acceptor, look)
        self.bound_s = bound_s
        self.number = 0
        """Number of the next sum, which is the same on all members and grows from sum to sum."""
        self._outs: dict[int, Outgoing] = {}
        self._ins: dict[int, Incoming] = {}
        self._part = aligned_vector(0)
        self._late: Late | None = None

    def late(self) -> Late | None:
        """The losses of the last sum, once; None: there are none."""
        late, self._late = self._late, None
        return late

    def _sum(self, vector: FloatVector, peers: Sequence[Peer], rank: int) -> None:
        self._connect([peer for peer in peers if peer.worker != self.me.id])
        begun_s, size, lost_bytes = time.monotonic(), len(peers), 0
        parts, mine = turns("transpose", size, rank)
        ranges = [server_range(len(vector), parts, part) for part in range(parts)]
        views = [vector[lo:hi] for lo, hi in ranges]
        if len(self._part) < max(map(len, views)):
            self._part = aligned_vector(max(map(len, views)))
        for number, (sends, receives) in enumerate(mine):
            assert sends is not None, "in each of its rounds every member sends and receives"
            assert receives is not None
            place, end_s = (self.number, number), begun_s + self.bound_s * (number + 1) / len(mine)
            out, own = self._outs[peers[sends.target].worker], views[receives.lo]
            if time.monotonic() < end_s:
                out.put(place, self.generation, views[sends.lo])
            into = self._part[: len(own)]
            if not self._exchange_until(end_s, place, out, self._ins[peers[receives.source].worker], into):
                lost_bytes += own.nbytes
            elif receives.adds:
                np.add(own, into, out=own)
            else:
                own[:] = into
        if lost_bytes:
            self._late = Late(lost_bytes=lost_bytes, sum_bytes=2 * (size - 1) * PARAMETER_BYTES * len(vector))

    def _connect(self, others: Sequence[Peer]) -> None:
        """Have a connection to and from each; one that is new has nothing on its way."""
        called = {peer.worker: self._end(peer, True) for peer in others}
        taken = {peer.worker: self._end(peer, False) for peer in others}
        outs, ins = self._outs, self._ins
        self._outs = {
            worker: outs[worker] if worker in outs and outs[worker].sock is sock else Outgoing(sock)
            for worker, sock in called.items()
        }
        self._ins = {
            worker: ins[worker] if worker in ins and ins[worker].sock is sock else Incoming(sock)
            for worker, sock in taken.items()
        }

    def _exchange_until(self, end_s: float, place: Place, out: Outgoing, come: Incoming, into: FloatVector) -> bool:
        """Send to one member and receive from one, until both are done or it is ``end_s``; returns if all has come.

        Meanwhile late messages of all members leave, and arrive.
        """
        complete, waste = False, as_bytes(self._spare)
        while True:
            for one in self._outs.values():
                one.send()
            for other in self._ins.values():
                complete |= other.receive(place, as_bytes(into) if other is come else None, waste)
            if complete and not out.messages:
                return True
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                out.give_up()
                return complete
            self._await(left_s, place)

    def _await(self, left_s: float, place: Place) -> None:
        """Wait until a connection is ready, at most so long; call ``look`` when none is."""
        poll = select.poll()
        for one in self._outs.values():
            if one.messages:
                poll.register(one.sock, select.POLLOUT)
        for other in self._ins.values():
            if not other.waits(place):
                poll.register(other.sock, select.POLLIN)
        if not poll.poll(min(left_s, CALL_DEADLINE_S) * 1e3):
            self.look()
