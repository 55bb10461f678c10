"""Process ids as seen outside the run's namespace: records hold these, since their readers are outside."""

from __future__ import annotations

import contextlib
import os

_outer_proc: list[int] = []
"""Descriptor of the outer ``/proc``; empty if this process never entered a PID namespace."""


def remember_outside() -> None:
    """Keep the outer ``/proc`` open; call it before this process enters a PID namespace."""
    _outer_proc[:] = [os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]


def outer_pid(pid: int) -> int:
    """The outer process id of a process inside; 0 if it is gone.

    The kernel shows it in the ``fdinfo`` of a pidfd, to readers of the outer ``/proc``.
    """
    if not _outer_proc:
        return pid
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return 0
    try:
        info = _read(f"self/fdinfo/{descriptor}")
    finally:
        os.close(descriptor)
    with contextlib.suppress(ValueError, IndexError):
        return max(0, int(info.partition("Pid:")[2].split()[0]))
    return 0


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=_outer_proc[0])
    except OSError:
        return ""
    with os.fdopen(descriptor) as file:
        return file.read()
