"""Latency where the kernel has no netem: a process that relays connections and holds every byte back for a while.

It runs in the laboratory's namespace, and a client connects to the laboratory's address instead of the server's: so its
data passes its own link, waits here, and passes the server's link. Data may leave in other pieces than it came, but
never early and always in order. A full buffer stops reading, and so the sender (back pressure).

Run as ``python -m runtime.live.hosts.relay PARENT`` with a :class:`RelayMap`, one line of JSON, on a standard input
that stays open; it answers ``ready`` when it listens. Later lines are further maps, each with an answer: ``ready``, or
why it does not listen. It ends with its parent, or when its standard input does.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import sys
from functools import partial

import msgspec

from runtime.containment.process import die_with
from runtime.live.hosts.holding import Connection
from runtime.live.transport.address import listen
from runtime.live.transport.loop import Loop

PR_SET_TIMERSLACK = 29
READY = b"ready\n"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A route from a port of the laboratory to a server."""

    port: int
    target: tuple[str, int]
    delays_s: dict[str, tuple[float, float]]
    """Latencies to the target and back, by the client's address."""
    other_s: tuple[float, float] = (0.0, 0.0)
    """Latencies of a client that is not listed."""


class RelayMap(msgspec.Struct, frozen=True, kw_only=True):
    """Ports to listen on, and their targets."""

    host: str
    routes: list[Route]


class PreciseLoop(Loop):
    """A loop with exact time-outs: ``epoll`` waits in whole milliseconds, as long as delays; ``select`` does not."""

    def turn(self, at_most_s: float = 1.0) -> None:
        """Wait for the next event and run what is due."""
        select.select([self.selector], [], [], self.wait_s(at_most_s))
        super().turn(0.0)


class Relay:
    """Listens on all routes and relays their connections."""

    def __init__(self, relay_map: RelayMap) -> None:
        self.loop = PreciseLoop()
        self._ended = False
        self._line = bytearray()
        self.listen(relay_map)

    def listen(self, relay_map: RelayMap) -> None:
        """Listen on these routes, too; raises ``OSError``."""
        for route in relay_map.routes:
            listener, _ = listen("tcp", relay_map.host, route.port)
            self.loop.watch(listener, partial(self._accept, listener, route))

    def _accept(self, listener: socket.socket, route: Route, _: int) -> None:
        try:
            client, (address, _port) = listener.accept()
        except OSError:  # the client has disconnected already
            return
        Connection(self.loop, client, route.target, *route.delays_s.get(address, route.other_s))

    def run(self) -> None:
        """Relay until standard input ends."""
        self.loop.watch(sys.stdin, self._on_input)
        while not self._ended:
            self.loop.turn()

    def _on_input(self, _: int) -> None:
        piece = os.read(sys.stdin.fileno(), 1 << 16)
        self._ended = not piece
        self._line += piece
        while b"\n" in self._line:
            end = self._line.index(b"\n")
            os.write(sys.stdout.fileno(), self._answer(bytes(self._line[:end])))
            del self._line[: end + 1]

    def _answer(self, line: bytes) -> bytes:
        try:
            self.listen(msgspec.json.decode(line, type=RelayMap))
        except OSError as error:
            return f"{error}\n".encode()
        return READY


def main() -> None:
    """Entry point of the relay process."""
    die_with(int(sys.argv[1]))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(sys.stdin.fileno(), 1 << 16)
        if not piece:
            return
        line += piece
    relay = Relay(msgspec.json.decode(bytes(line), type=RelayMap))
    os.write(sys.stdout.fileno(), READY)
    relay.run()


if __name__ == "__main__":
    main()
