"""Ends what a measurement has started, also what has left its process group.

Every process below a driver inherits a token in its environment, by which it is found; every temporary file lies in one
folder. What a killed session leaves ends as with all tests (``tests/support/reaper.py``).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import secrets
import shutil
import signal
import tempfile
import time
from pathlib import Path

VARIABLE = "STRAGGLAB_BENCH_TOKEN"
SESSION = secrets.token_hex(8)
"""Every token of this session begins with it."""
KILL_S = 10.0
"""A killed process that is still there after this time cannot be ended by anybody."""


def sweep(token: str, grace_s: float) -> list[int]:
    """End every process whose token begins with ``token``; those left after ``grace_s`` are killed and returned."""
    killed: set[int] = set()
    begun = time.monotonic()
    while (alive := carriers(token)) and time.monotonic() < begun + grace_s + KILL_S:
        if time.monotonic() >= begun + grace_s:
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed.update(alive)
        time.sleep(0.01)
    return sorted(killed)


def carriers(token: str) -> list[int]:
    """Zombies have no environment any more, so they never match."""
    wanted, found = f"{VARIABLE}={token}".encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if wanted in Path("/proc", name, "environ").read_bytes():
                found.append(int(name))
    return found


@functools.cache
def session_folder() -> Path:
    """For all temporary files. Below /tmp: Ray's socket paths are long."""
    folder = tempfile.mkdtemp(prefix="sg-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
