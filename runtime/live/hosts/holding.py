"""A connection that is relayed with a delay: every byte is held back for a while, then forwarded in order."""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE

from runtime.live.transport.address import tune
from runtime.live.transport.loop import Loop

CHUNK_BYTES = 1 << 18
HELD_BYTES = 1 << 24
"""Buffer of one direction of one connection: 100 ms of 1 Gbit/s are 12.5 MB."""
RETRY_S = 0.05
CONNECT_PATIENCE_S = 5.0
"""Seconds after which an unreachable target is given up: its client sees a reset."""
LATE_S = 20e-6
"""Data this close to its time is released at once."""
NOT_UP = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT}
"""Errors that mean that no process listens; any other error belongs to an established connection."""
RESET = b"\x01\0\0\0\0\0\0\0"
"""Linger for no time, so that the peer sees a reset."""

Guard = Callable[[Callable[[], None]], None]


class End:
    """One socket of a connection, and the events that are awaited on it."""

    def __init__(self, loop: Loop, sock: socket.socket, happened: Callable[[int], None]) -> None:
        sock.setblocking(False)
        tune(sock)
        self.sock = sock
        self._selector, self._happened, self._wanted = loop.selector, happened, 0

    def want(self, event: int, on: bool) -> None:
        """Start or stop waiting for an event."""
        wanted = self._wanted | event if on else self._wanted & ~event
        if wanted == self._wanted:
            return
        if not wanted:
            self._selector.unregister(self.sock)
        elif self._wanted:
            self._selector.modify(self.sock, wanted, self._happened)
        else:
            self._selector.register(self.sock, wanted, self._happened)
        self._wanted = wanted

    @property
    def closed(self) -> bool:
        """Whether this end is closed."""
        return self.sock.fileno() < 0

    def close(self, *, reset: bool = False) -> None:
        """Close the socket; ``reset``: the peer sees that data was lost."""
        if self.closed:
            return
        self.want(EVENT_READ | EVENT_WRITE, False)
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.sock.close()


class Way:
    """One direction of a connection: data from ``source`` goes to ``sink``, ``delay_s`` later.

    Calls raise ``OSError`` when an end fails; calls by timers go through ``guard``.
    """

    def __init__(self, loop: Loop, source: End, sink: End, delay_s: float, guard: Guard) -> None:
        self.source, self.sink = source, sink
        self.open = False
        """Whether the sink is connected."""
        self.done = False
        """Whether the end of the stream has been passed on."""
        self._loop, self._delay_s, self._guard = loop, delay_s, guard
        self._held: deque[tuple[float, memoryview]] = deque()
        """(due time, data) of every piece; an empty piece is the end of the stream."""
        self._held_bytes = 0
        self._waiting = False

    def receive(self) -> None:
        """Read what the source has."""
        try:
            data = self.source.sock.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        self._held.append((self._loop.now + self._delay_s, memoryview(data)))
        self._held_bytes += len(data)
        if not data or self._held_bytes >= HELD_BYTES:
            self.source.want(EVENT_READ, False)
        self.release()

    def release(self) -> None:
        """Forward what is due, as far as the sink accepts it."""
        if not self.open:
            return
        now = self._loop.now + LATE_S
        while self._held and self._held[0][0] <= now:
            if not self._pass_on():
                self.sink.want(EVENT_WRITE, True)
                return
        self.sink.want(EVENT_WRITE, False)
        if self._held and not self._waiting:
            self._waiting = True
            self._loop.at(self._held[0][0], partial(self._guard, self._due))

    def _due(self) -> None:
        self._waiting = False
        self.release()

    def _pass_on(self) -> bool:
        """Forward the first piece; return whether all of it was accepted."""
        due_s, piece = self._held.popleft()
        if not piece:
            self.sink.sock.shutdown(socket.SHUT_WR)
            self.done = True
            return True
        try:
            sent = self.sink.sock.send(piece)
        except BlockingIOError:
            sent = 0
        full = self._held_bytes >= HELD_BYTES
        self._held_bytes -= sent
        if full and self._held_bytes < HELD_BYTES:
            self.source.want(EVENT_READ, True)
        if sent < len(piece):
            self._held.appendleft((due_s, piece[sent:]))
        return sent == len(piece)


class Connection:
    """A client and its target, ``there_s`` and ``back_s`` apart."""

    def __init__(
        self, loop: Loop, client: socket.socket, target: tuple[str, int], there_s: float, back_s: float
    ) -> None:
        self._loop, self._address = loop, target
        self._client = End(loop, client, self._on_client)
        self._target = self._new_target()
        self._there = Way(loop, self._client, self._target, there_s, self._guarded)
        self._back = Way(loop, self._target, self._client, back_s, self._guarded)
        self._back.open = True
        self._give_up_s = loop.now + there_s + CONNECT_PATIENCE_S
        self._client.want(EVENT_READ, True)
        loop.after(there_s, partial(self._guarded, self._connect))

    def _new_target(self) -> End:
        return End(self._loop, socket.socket(), self._on_target)

    def _connect(self) -> None:
        code = self._target.sock.connect_ex(self._address)
        if code in (0, errno.EINPROGRESS):
            self._target.want(EVENT_WRITE, True)
        else:
            self._try_again(code)

    def _on_connected(self) -> None:
        """The attempt to connect has succeeded or failed."""
        if code := self._target.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._try_again(code)
            return
        self._there.open = True
        self._target.want(EVENT_READ, True)
        self._there.release()

    def _try_again(self, code: int) -> None:
        """Retry, since the target may not listen yet."""
        if code not in NOT_UP or self._loop.now >= self._give_up_s:
            raise OSError(code, os.strerror(code))
        self._target.close()
        self._target = self._there.sink = self._back.source = self._new_target()
        self._loop.after(RETRY_S, partial(self._guarded, self._connect))

    def _on_client(self, events: int) -> None:
        self._guarded(partial(self._move, events, self._there, self._back))

    def _on_target(self, events: int) -> None:
        if self._there.open:
            self._guarded(partial(self._move, events, self._back, self._there))
        else:
            self._guarded(self._on_connected)

    def _move(self, events: int, reads: Way, writes: Way) -> None:
        if events & EVENT_WRITE:
            writes.release()
        if events & EVENT_READ:
            reads.receive()

    def _guarded(self, call: Callable[[], None]) -> None:
        """Run ``call``; close both ends if one fails, or after the end of both streams."""
        if self._client.closed:
            return
        try:
            call()
        except OSError:
            self._close(reset=True)
            return
        if self._there.done and self._back.done:
            self._close(reset=False)

    def _close(self, *, reset: bool) -> None:
        for end in (self._client, self._target):
            end.close(reset=reset)
