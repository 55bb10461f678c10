"""The network of a run's emulated hosts: every host in a namespace of its own, behind a link of a rate, at one switch.

::

    namespace of host h          |  namespace of the run (the laboratory)
    eth0  10.77.0.(h+1)  --------|--------  port h  --+
      queue: what the host sends |           queue:   |   switch  10.77.0.254, never the bottleneck
                                 |   what it receives |
                                 |                  --+  port of the next host

Rates are bytes per second on the wire, headers included, separately for each direction. They change within
milliseconds, and no packet in flight is dropped. Everything is in the kernel, so it disappears with the run's last
process, however that ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from runtime.live.hosts import rules, wiring
from runtime.live.hosts.netlink import LinkRefused, open_routes, routes
from runtime.live.hosts.shaping import Queue, checked_rate
from runtime.live.hosts.wiring import Ends

__all__ = ["LinkRefused", "Network"]

COUNTERS = Path("/proc/thread-self/net/dev")
"""Counters of the namespace in which the file was opened, whichever process reads it."""


class Network:
    """Built in the current network namespace, which should be the run's own.

    ``run_id``: 16 hex digits. ``hosts``: number (0, 1, 2, ...) and bytes per second of the link, None for no limit.
    ``fair``: the hosts whose queues serve the other hosts in turn; queues of others pass packets as they come.
    Raises :class:`LinkRefused`, or another ``OSError`` where namespaces cannot be made.
    """

    def __init__(self, run_id: str, hosts: Sequence[tuple[int, float | None]], fair: Collection[int] = ()) -> None:
        if [number for number, _ in hosts] != list(range(len(hosts))):
            raise ValueError("hosts: must be numbered 0, 1, 2, ... in this order")
        for number, rate in hosts:
            checked_rate(_link(number), rate)
        self.lab_address = rules.address(rules.LAB_NUMBER)
        self.addresses = [rules.address(number) for number, _ in hosts]
        self._ends: list[Ends] = []
        self._out: list[Queue] = []
        self._in: list[Queue] = []
        self._ports = [rules.port_name(number, run_id).encode() for number, _ in hosts]
        self._closing = contextlib.ExitStack()
        with contextlib.ExitStack() as undone:
            undone.callback(self.close)
            self._build(run_id, [rate for _, rate in hosts], fair)
            undone.pop_all()

    def _build(self, run_id: str, rates: list[float | None], fair: Collection[int]) -> None:
        self._ip: Any = open_routes()
        self._closing.callback(self._ip.close)
        self._counters = self._closing.enter_context(COUNTERS.open("rb", buffering=0))
        frames = rules.frames_of_network(rates)
        bridge = wiring.lay_bridge(self._ip, run_id)
        self._closing.callback(wiring.tear_down, self._ip, run_id)
        wiring.switch_on(self._ip, bridge, frames)
        for number in range(len(rates)):
            ends = wiring.connect_host(self._ip, bridge, number, run_id, frames)
            self._closing.callback(os.close, ends.namespace_fd)
            self._ends.append(ends)
        wiring.introduce(bridge, self._ends)
        for host, ends in enumerate(self._ends):
            turns = {rules.turn(other) for other in range(len(rates)) if other != host} if host in fair else ()
            self._out.append(Queue(ends.inner, f"{_link(host)} out", sorts=True, frames=frames, turns=turns))
            self._in.append(Queue(ends.port, f"{_link(host)} in", sorts=False, frames=frames, turns=turns))
        for host, rate in enumerate(rates):
            self.set_rate(host, rate)

    @property
    def namespace_fds(self) -> list[int]:
        """Descriptors by host: pass one to a process that should ``netns.enter`` it."""
        return [ends.namespace_fd for ends in self._ends]

    def rate(self, host: int) -> float | None:
        """Bytes per second of a host's link in each direction; None: no limit."""
        return self._in[host].rate_bytes_per_s

    def set_rate(self, host: int, bytes_per_s: float | None) -> float | None:
        """Set both directions' rate; returns what the kernel enforces. Raises :class:`LinkRefused`."""
        with routes(self._ends[host].namespace_fd) as there:
            self._out[host].set_rate(there, bytes_per_s)
        return self._in[host].set_rate(self._ip, bytes_per_s)

    def set_peer_rate(self, sender: int, receiver: int, bytes_per_s: float | None) -> float | None:
        """Set the rate from one host to another, within both links; returns what the kernel enforces."""
        if sender == receiver:
            raise LinkRefused(f"{_link(sender)}: what a host sends to itself passes no link; name two hosts")
        with routes(self._ends[sender].namespace_fd) as there:
            return self._out[sender].set_peer_rate(there, receiver, bytes_per_s)

    def set_latency(self, host: int, seconds: float) -> None:
        """Delay between a host and the switch, one way, where the kernel has netem. Set it before there is traffic."""
        with routes(self._ends[host].namespace_fd) as there:
            self._out[host].set_delay(there, seconds)
        self._in[host].set_delay(self._ip, seconds)

    def cut(self, host: int, on: bool) -> None:
        """Disconnect or reconnect a host: nothing passes in either direction, and incoming packets in flight are lost.

        The link itself works again at once; a TCP connection does after its next retry, which takes up to about as
        long as the cut lasted.
        """
        wiring.set_port(self._ip, self._ends[host].port, wiring.DISABLED if on else wiring.FORWARDING)
        if on:
            self._in[host].drop_all(self._ip)

    def counters(self) -> list[tuple[int, int]]:
        """(bytes out, bytes in) of every host since the start; reading takes about 30 µs.

        As interfaces count: segments that left in one piece count their headers once, up to 4 % less than on the wire.
        """
        counted = {}
        self._counters.seek(0)
        for line in self._counters.readall().splitlines():
            name, _, rest = line.strip().partition(b":")
            fields = rest.split()
            if len(fields) == 16 and fields[0].isdigit():
                counted[name] = (int(fields[0]), int(fields[8]))
        return [counted[name] for name in self._ports]

    def close(self) -> None:
        """Delete everything, at once also for processes that still use it."""
        self._closing.close()


def _link(host: int) -> str:
    return f"link of host {host}"
