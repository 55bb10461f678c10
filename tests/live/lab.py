"""An emulated network for tests: connections between its hosts, and what the kernel says of it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator

from runtime.live.hosts import rules
from runtime.live.hosts.netlink import LinkRefused, routes
from runtime.live.hosts.netns import inside
from runtime.live.hosts.network import Network

RUN_ID = "0123456789abcdef"
MBIT = 125_000.0
PORT = 4711


@contextlib.contextmanager
def network(*mbits: float | None, fair: Collection[int] = ()) -> Iterator[Network]:
    """One host for each rate; ``fair``: those whose links serve others in turn."""
    laid = Network(RUN_ID, [(host, None if mbit is None else mbit * MBIT) for host, mbit in enumerate(mbits)], fair)
    try:
        yield laid
    finally:
        laid.close()


def socket_of(net: Network, host: int | None, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """Of a host, or of the laboratory."""
    if host is None:
        return socket.socket(socket.AF_INET, kind)
    with inside(net.namespace_fds[host]):
        return socket.socket(socket.AF_INET, kind)


def address_of(net: Network, host: int | None) -> str:
    return net.lab_address if host is None else net.addresses[host]


def connected(net: Network, sender: int | None, receiver: int | None) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection."""
    with socket_of(net, receiver) as listener:
        listener.bind((address_of(net, receiver), 0))
        listener.listen()
        source = socket_of(net, sender)
        source.settimeout(5)
        source.connect(listener.getsockname())
        sink = listener.accept()[0]
    sink.settimeout(5)
    return source, sink


def transfer_s(source: socket.socket, sink: socket.socket, count: int) -> float:
    """Seconds until so much has arrived."""
    begun = time.monotonic()
    thread = threading.Thread(target=source.sendall, args=(bytes(count),))
    thread.start()
    while count:
        count -= len(sink.recv(min(count, 1 << 18)))
    thread.join()
    return time.monotonic() - begun


class Stream:
    """Sends as fast as it can, and counts what arrives."""

    def __init__(self, net: Network, sender: int, receiver: int) -> None:
        self.source, self.sink = connected(net, sender, receiver)
        self.arrived = 0
        self.threads = [threading.Thread(target=self._send), threading.Thread(target=self._receive)]
        for thread in self.threads:
            thread.start()

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.source.sendall(bytes(1 << 15))

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.sink.recv(1 << 18):
                self.arrived += len(data)

    def during(self, seconds: float) -> float:
        """Bytes per second on the wire, from now on."""
        before, begun = self.arrived, time.monotonic()
        time.sleep(seconds)
        return (self.arrived - before) / rules.PAYLOAD_FRAC / (time.monotonic() - begun)

    @property
    def resent(self) -> int:
        """Segments that were sent again so far (tcpi_total_retrans)."""
        return int.from_bytes(self.source.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[100:104], "little")

    def stop(self) -> None:
        for end in (self.source, self.sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.source.close()
        self.sink.close()


def read_back(net: Network, host: int) -> list[float]:
    """Rates of both directions, as a dump of all queues tells them."""
    with routes() as here, routes(net.namespace_fds[host]) as there:
        with inside(net.namespace_fds[host]):
            inner = socket.if_nametoindex("eth0")
        port = socket.if_nametoindex(rules.port_name(host, RUN_ID))
        found = []
        for ip, index in ((there, inner), (here, port)):
            for message in ip.get_qdiscs(index=index):
                parms = message.get_nested("TCA_OPTIONS", "TCA_TBF_PARMS")
                if parms is not None:
                    found.append(float(parms["rate"]))
        return found


def refusal(call: Callable[[], object]) -> str:
    """The words of it."""
    try:
        call()
    except LinkRefused as error:
        return str(error)
    return "not refused"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
