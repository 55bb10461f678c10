"""Network namespaces, by file descriptor: they have no name, and end with the last process or descriptor in them.

``unshare`` and ``setns`` act on the calling *thread*; Python has them from 3.12 on, so they are called through libc.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.containment.linux import CLONE_NEWNET, unshare

_libc = ctypes.CDLL(None, use_errno=True)


def enter(fd: int) -> None:
    """Move this thread into the network namespace ``fd``; its open sockets stay in theirs."""
    if _libc.setns(fd, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def current() -> int:
    """A descriptor of this thread's network namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def new_namespace() -> int:
    """A descriptor of a new network namespace; this thread stays in its own."""
    with _coming_back():
        unshare(CLONE_NEWNET)
        return current()


@contextmanager
def inside(fd: int) -> Iterator[None]:
    """Run a block in the namespace ``fd``: sockets that it opens stay in that namespace."""
    with _coming_back():
        enter(fd)
        yield


@contextmanager
def _coming_back() -> Iterator[None]:
    own = current()
    try:
        yield
    finally:
        enter(own)
        os.close(own)
