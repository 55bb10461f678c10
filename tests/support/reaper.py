"""A plugin: what a session of tests has started ends with it, also if a signal ends it before any fixture could.

A process of its own waits for the end of the session, and then ends whatever has inherited the session's mark: first in
good order, since a driver has tasks and control groups to take away, then by SIGKILL.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

MARK = "STRAGGLAB_TESTED_BY"
"""Environment variable: the session that has started a process."""
GRACE_S, PATIENCE_S, PAUSE_S = 5.0, 5.0, 0.05


def pytest_sessionstart() -> None:
    """Mark what is started from here on, and have somebody wait for our end; each worker of xdist does."""
    if not hasattr(os, "pidfd_open"):
        return
    os.environ[MARK] = mark = f"{os.getpid()}-{time.monotonic_ns()}"
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), mark],
        {},
        file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)],
        setsid=True,
    )


def main(session: int, mark: str) -> None:
    """Wait for the end of the process ``session``, and end what has its ``mark``."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    ended = os.pidfd_open(os.getppid())
    if os.getppid() == session:
        select.select([ended], [], [])
    for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, PATIENCE_S)):
        told, until = set[int](), time.monotonic() + patience_s
        while (left := marked(mark)) and time.monotonic() < until:
            for pid in left - told:
                tell(pid, number)
            told |= left
            time.sleep(PAUSE_S)


def marked(mark: str) -> set[int]:
    return {int(path.name) for path in Path("/proc").glob("[0-9]*") if f"{MARK}={mark}".encode() in environment(path)}


def environment(process: Path) -> list[bytes]:
    """With which it was started; empty for one that is gone, or another user's."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def tell(pid: int, number: int) -> None:
    """Send it a signal, if it is still there."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
