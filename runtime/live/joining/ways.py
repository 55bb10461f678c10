"""Whether the machines of a run reach each other: doors that listen while agents join, and doors that are not reached.

A door is a listening socket that nobody accepts from: the kernel completes a connection, so the way is open.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from runtime.errors import ConfigError
from runtime.live.joining.wire import Door

REACH_S = 3.0
"""Seconds until a door counts as closed: long enough for a packet that has to be sent again (after 1 s)."""
WAITING = 4096
"""The door's backlog, from which nobody accepts; the kernel's own limit (``somaxconn``), by default."""
CURE = "let the machines of the run reach each other at all ports"


def words_of(error: OSError) -> str:
    """The reason, for a message."""
    return "nobody answers" if isinstance(error, TimeoutError) else (error.strerror or str(error)).lower()


def open_door(address: str, port: int = 0) -> socket.socket:
    """A door at an address of this machine and a port (0: any free one); raises ``OSError`` if there is none."""
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((address, port))
        door.listen(WAITING)
    except BaseException:
        door.close()
        raise
    return door


def coordinators_door(address: str, port: int) -> socket.socket:
    """A door where the coordinator will listen; raises :class:`ConfigError` in one line."""
    try:
        return open_door(address, port)
    except OSError as error:
        raise ConfigError(f"runtime.port={port}: {words_of(error)}; choose another, or 0 for any free one") from None


def agents_door(address: str) -> socket.socket:
    """The door of an agent, where tasks of this machine will listen; raises :class:`ConfigError` in one line."""
    try:
        return open_door(address)
    except OSError as error:
        raise ConfigError(
            f"--address {address}: {words_of(error)}; give an address of this machine that the others reach"
        ) from None


def door_of(name: str, sock: socket.socket) -> Door:
    """Where a door is, and whose."""
    host, port = sock.getsockname()
    return Door(name=name, host=host, port=port)


def closed(doors: Iterable[Door], within_s: float = REACH_S) -> str:
    """Why the first door that is not reached from here is not; empty if all are."""
    for door in doors:
        try:
            socket.create_connection((door.host, door.port), within_s).close()
        except OSError as error:
            return f"does not reach {door.name} at {door.host}:{door.port} ({words_of(error)})"
    return ""
