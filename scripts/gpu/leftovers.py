"""Ends all processes that a program has started, however the program or its watcher ends.

The program must run in a session of its own. Its processes may form groups, but no sessions, unless they end with it
anyway.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil


def end_session(number: int) -> None:
    """Kill all processes of a session."""
    for process in psutil.pids():
        with suppress(OSError):  # it has ended, or is not ours
            if os.getsid(process) == number:
                os.kill(process, signal.SIGKILL)


@contextmanager
def nothing_left() -> Iterator[Callable[[], None]]:
    """Kill what is left of a program's session at the end of the block, and also if this process is killed within it.

    Yields what the program has to call in its new session before anything else (``preexec_fn``). From then on a process
    of its own does this; the end of this process wakes it up, so there is no gap.
    """
    waits, ends = os.pipe()
    waits_for_it, done = os.pipe()

    def begin() -> None:
        session = os.getsid(0)
        if os.fork() == 0:
            watch(session, waits, done)

    try:
        yield begin
    finally:
        for one in (waits, done, ends):
            os.close(one)
        os.read(waits_for_it, 1)  # it ends when the watcher has
        os.close(waits_for_it)


def watch(session: int, waits: int, done: int) -> None:
    """Kill a session when no process can write to ``waits`` any more; never returns. ``done`` stays open until then."""
    try:
        os.setsid()
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)
        first, second = sorted((waits, done))
        for low, high in ((0, first), (first + 1, second), (second + 1, os.sysconf("SC_OPEN_MAX"))):
            os.closerange(low, high)  # the program's starter waits until no other process has its descriptors
        os.read(waits, 1)
        end_session(session)
    finally:
        os._exit(0)
