"""Sockets that configure the kernel's network, through pyroute2, which is imported when the first is opened.

A socket always belongs to the namespace in which it was opened. It starts no thread or process, and costs 0.3 ms and
four descriptors, so sockets of hosts are opened only for a change, and 250 hosts hold 250 descriptors.
"""

from __future__ import annotations

import errno
import importlib
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from runtime.live.hosts.netns import inside

_HEADER = struct.Struct("=IHHII")
"""Header of a netlink message: length, type, flags, sequence number, port."""
_ERROR_TYPE = 2
_AT_ONCE = 64
"""Messages in one system call: their answers fit into a socket's buffer."""


class LinkRefused(OSError):
    """The kernel rejected, or does not enforce, a setting of a link."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()


@contextmanager
def routes(namespace_fd: int | None = None) -> Iterator[Any]:
    """A pyroute2 ``IPRoute`` in a namespace (None: the current one) that returns what the kernel then enforces."""
    opened = open_routes(namespace_fd)
    try:
        yield opened
    finally:
        opened.close()


def open_routes(namespace_fd: int | None = None) -> Any:
    """As :func:`routes`; the caller closes it."""
    make = importlib.import_module("pyroute2").IPRoute
    if namespace_fd is None:
        return make(groups=0, nlm_echo=True)
    with inside(namespace_fd):
        return make(groups=0, nlm_echo=True)


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Turns pyroute2's errors into :class:`LinkRefused`; ``what`` names the attempt in messages."""
    refused = importlib.import_module("pyroute2").NetlinkError
    try:
        yield
    except refused as error:
        raise LinkRefused(error.code, f"{what}: refused by the kernel ({_words(error)})") from error


def _words(error: Any) -> str:
    if error.code == errno.EPERM:
        return "not permitted; emulated links need root, or a user namespace with a network of its own"
    return str(error.args[1])


def encode_neighbours(ifindex: int, lladdr_of: Sequence[tuple[str, str]]) -> list[bytes]:
    """Messages with permanent neighbour entries for a host, so that no address is ever resolved."""
    batch = importlib.import_module("pyroute2").IPBatch()
    messages = []
    try:
        for address, lladdr in lladdr_of:
            batch.reset()
            batch.neigh("add", ifindex=ifindex, dst=address, lladdr=lladdr, state=0x80)
            messages.append(bytes(batch.batch))
    finally:
        batch.close()
    return messages


def send_all(namespace_fd: int | None, messages: Sequence[bytes]) -> None:
    """Send many messages in few system calls, 2 µs each: n hosts have n entries each. Raises :class:`LinkRefused`."""
    if namespace_fd is None:
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    else:
        with inside(namespace_fd):
            sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    with sock:
        for first in range(0, len(messages), _AT_ONCE):
            some = messages[first : first + _AT_ONCE]
            sock.send(b"".join(some))
            _await_answers(sock, len(some))


def _await_answers(sock: socket.socket, count: int) -> None:
    while count:
        data, offset = sock.recv(1 << 16), 0
        while offset < len(data):
            length, kind, *_ = _HEADER.unpack_from(data, offset)
            if kind == _ERROR_TYPE:
                count -= 1
                (code,) = struct.unpack_from("=i", data, offset + _HEADER.size)
                if code:
                    raise LinkRefused(-code, f"neighbours: refused by the kernel ({os.strerror(-code)})")
            offset += (length + 3) & ~3
