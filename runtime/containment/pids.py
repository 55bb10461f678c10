"""Process ids as the rest of the machine knows them: what a record holds, since its readers are out there."""

from __future__ import annotations

import contextlib
import os

_outer_proc: list[int] = []
"""Descriptor of ``/proc`` as it was outside; empty outside."""


def remember_outside() -> None:
    """Before this process enters a namespace of processes."""
    _outer_proc[:] = [os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]


def forget_outside() -> None:
    """It stayed outside after all."""
    while _outer_proc:
        os.close(_outer_proc.pop())


def outer_pid(pid: int) -> int:
    """The id that a process of ours has outside; 0 if it is gone.

    The kernel says so of a descriptor of the process, to whoever reads of it in the outer ``/proc``.
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
