"""Ends what a program has started, whatever becomes of the program, and of whoever watches it.

The program must run in a session of its own, which it need not stay alone in: what it starts may form groups, but not
sessions, unless it dies with it anyway.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil


def end_session(number: int) -> None:
    """Kill all processes of a session."""
    for process in psutil.pids():
        with suppress(OSError):  # it has ended, or is not ours
            if os.getsid(process) == number:
                os.kill(process, signal.SIGKILL)


@contextmanager
def nothing_left(number: int) -> Iterator[None]:
    """Kill what is left of a session at the end of the block, and also if this process is killed within it.

    A process of its own sees to that, which the end of this one wakes up. To be called with one thread.
    """
    waits, ends = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        try:
            os.setsid()
            os.close(ends)
            for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(one, signal.SIG_IGN)
            os.read(waits, 1)
            end_session(number)
        finally:
            os._exit(0)
    os.close(waits)
    try:
        yield
    finally:
        os.close(ends)
        os.waitpid(watcher, 0)
