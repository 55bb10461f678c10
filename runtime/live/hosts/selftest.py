"""Test before a job: every link passes data in both directions, and no faster than its rate.

One TCP connection per host and direction, between the host and the laboratory. Links share nothing but the processor,
so as many are tested at the same time as it can serve; but one direction after the other, because otherwise the
acknowledgements of one would wait behind the data of the other.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from dataclasses import dataclass
from typing import NamedTuple

from runtime.live.hosts import rules
from runtime.live.hosts.netlink import LinkRefused
from runtime.live.hosts.netns import inside
from runtime.live.hosts.network import Network
from runtime.live.transport.address import tune

ASKED_S = 0.05
"""Planned duration of a test of a link."""
LEAST_BURSTS = 4
"""Least amount of data: with less, the burst would hide the rate."""
MOST_BYTES = 2_000_000
"""Data for a fast link, or one without a limit."""
PATIENCE_S = 2.0
"""Seconds beyond three times the planned duration after which no more data is expected."""
TOO_FAST = 1.3
TOGETHER_BYTES_PER_S = 60e6
"""Total rate of links tested at the same time: this loop can move it on half a core."""
WAKES = 16
"""Seconds between two wake-ups of a receiver: with one per packet, these would limit eight links of 100 Mbit/s."""
_NOTHING = memoryview(bytes(MOST_BYTES))


class LinkCheck(NamedTuple):
    """Measured rates of a link; ``out``: from the host."""

    host: int
    out: bool
    asked_bytes_per_s: float | None
    bytes_per_s: float
    """Rate on the wire, after the burst. It may be below the link's: fast links share this machine's processor."""


@dataclass
class _Stream:
    """One direction of one link."""

    host: int
    out: bool
    rate: float | None
    source: socket.socket
    sink: socket.socket
    left: int
    total: int
    begun_s: float = 0.0
    first: int = 0
    arrived: int = 0
    ended_s: float = 0.0

    def send(self) -> bool:
        """Send what the socket takes; whether all is sent."""
        with contextlib.suppress(BlockingIOError):
            self.left -= self.source.send(_NOTHING[: self.left])
        if not self.left:
            self.source.shutdown(socket.SHUT_WR)  # wakes the receiver for the rest
        return not self.left

    def receive(self) -> bool:
        """Receive what has arrived; whether that is all."""
        with contextlib.suppress(BlockingIOError):
            count = len(self.sink.recv(MOST_BYTES))
            self.ended_s = time.monotonic()
            if not self.arrived:
                self.begun_s, self.first = self.ended_s, count
            self.arrived += count
        return self.arrived >= self.total

    @property
    def bytes_per_s(self) -> float:
        """Rate on the wire, between the first arrival and the last."""
        took = max(self.ended_s - self.begun_s, 1e-6)
        return (self.arrived - self.first) / rules.PAYLOAD_FRAC / took


def check_links(network: Network) -> list[LinkCheck]:
    """Test all links; raises :class:`LinkRefused` with one line about the first that fails."""
    with contextlib.ExitStack() as stack:
        checks = []
        for hosts in _groups([network.rate(host) for host in range(len(network.addresses))]):
            for out in (True, False):
                streams = [_open(stack, network, host, out) for host in hosts]
                _run(streams)
                for stream in streams:
                    _judge(stream)
                checks += [LinkCheck(one.host, one.out, one.rate, one.bytes_per_s) for one in streams]
    return checks


def _groups(rates: list[float | None]) -> list[list[int]]:
    """Groups of hosts that are tested at the same time."""
    groups: list[list[int]] = []
    room = 0.0
    for host, rate in enumerate(rates):
        room -= rate or TOGETHER_BYTES_PER_S
        if not groups or room < 0:
            groups.append([])
            room = TOGETHER_BYTES_PER_S - (rate or TOGETHER_BYTES_PER_S)
        groups[-1].append(host)
    return groups


def _open(stack: contextlib.ExitStack, network: Network, host: int, out: bool) -> _Stream:
    """A connection between the laboratory, which listens, and a host."""
    with socket.socket() as listener:
        tune(listener)
        listener.bind((network.lab_address, 0))
        listener.listen()
        with inside(network.namespace_fds[host]):
            there = stack.enter_context(socket.socket())
        tune(there)
        there.settimeout(PATIENCE_S)
        listener.settimeout(PATIENCE_S)
        rate = network.rate(host)
        try:
            there.connect(listener.getsockname())
            here = stack.enter_context(listener.accept()[0])
        except OSError as error:
            raise LinkRefused(f"{_name(host, rate)}: no connection passes ({error}); see `tc -s qdisc`") from error
    for end in (here, there):
        end.setblocking(False)
    total = _bytes_to_send(rate)
    (here if out else there).setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, max(1, total // WAKES))
    return _Stream(host, out, rate, *((there, here) if out else (here, there)), left=total, total=total)


def _bytes_to_send(rate: float | None) -> int:
    if rate is None:
        return MOST_BYTES
    return int(min(max(rate * ASKED_S, LEAST_BURSTS * rules.burst_bytes(rate)), MOST_BYTES))


def _run(streams: list[_Stream]) -> None:
    """Run until all data has arrived, or no more is expected."""
    longest_s = max((one.total / one.rate for one in streams if one.rate), default=0.0)
    deadline = time.monotonic() + 3 * longest_s + PATIENCE_S
    with selectors.DefaultSelector() as selector:
        for one in streams:
            selector.register(one.source, selectors.EVENT_WRITE, one)
            selector.register(one.sink, selectors.EVENT_READ, one)
        while selector.get_map() and (left_s := deadline - time.monotonic()) > 0:
            for key, events in selector.select(left_s):
                done = key.data.send() if events & selectors.EVENT_WRITE else key.data.receive()
                if done:
                    selector.unregister(key.fileobj)


def _judge(stream: _Stream) -> None:
    name, way = _name(stream.host, stream.rate), "to the laboratory" if stream.out else "from the laboratory"
    if stream.arrived < stream.total:
        raise LinkRefused(
            f"{name}: {stream.arrived} of {stream.total} bytes arrived {way}; "
            "see `tc -s qdisc` and the kernel's log, or use another rate"
        )
    if stream.rate is not None and stream.bytes_per_s > TOO_FAST * stream.rate:
        raise LinkRefused(
            f"{name}: passes {stream.bytes_per_s:.0f} bytes/s {way}, the limit is not kept by this kernel"
        )


def _name(host: int, rate: float | None) -> str:
    if rate is None:
        return f"link of host {host} (no limit)"
    return f"link of host {host} ({rate:.0f} bytes/s, burst {rules.burst_bytes(rate)} bytes)"
