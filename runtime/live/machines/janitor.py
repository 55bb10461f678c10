"""The janitor: a small process that outlives a run and removes its control groups, which no namespace takes away.

It reads the names of directories from a pipe until no process holds the other end, which the kernel ensures
however a run ends. Then it kills what is left in them, removes them, removes the run from the crash registry
(``runtime.live.machines.crash_registry``) and ends.

**Holders of the writing end**: the process that started the janitor and those forked from it to continue the run
(``runtime.containment``). Programs that these start get it only on request (``Janitor.share``). A holder delays the
cleaning, so tasks must not hold it. :mod:`runtime.live.machines.janitor_process` starts one.

This file is the janitor's program. It runs without ``site`` and imports next to nothing, so that it costs no more
than a bare interpreter (9 MB, most of it shared): ``Directory`` is a tuple and lines are plain text.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

Directory = tuple[str, int, int]
"""Path, device and inode of a control group. Inode 0: announced, and missing at the last check."""

PREFIX = "stragglab-"
RUN_ID_DIGITS = 16
PATIENCE_S = 5.0
PAUSE_S = 0.01
MAX_LINE_BYTES = 4096
"""Bytes that the kernel writes to a pipe atomically (PIPE_BUF)."""
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)


# ---- how control groups are removed ---------------------------------------------------------------------------------


def identify(path: str) -> Directory:
    """Identify a directory by path, device and inode."""
    try:
        stat = os.lstat(path)
    except FileNotFoundError:
        return path, 0, 0
    return path, stat.st_dev, stat.st_ino


def run_id_of(path: str) -> str:
    """The run to which a directory belongs; raises ``ValueError`` if it is not a run's directory."""
    name = os.path.basename(path)
    run_id = name.removeprefix(PREFIX)
    known = name.startswith(PREFIX) and len(run_id) == RUN_ID_DIGITS and not run_id.strip("0123456789abcdef")
    if not known or not os.path.isabs(path) or "\n" in path:
        raise ValueError(
            f"{path!r}: the directory of a run is absolute and ends in {PREFIX}<{RUN_ID_DIGITS} hex digits>"
        )
    return run_id


def reap(directories: list[Directory], patience_s: float = PATIENCE_S) -> list[str]:
    """Kill the processes in these groups and those below, and remove the groups. Returns the paths that remain.

    A directory that the run did not create (another device or inode) is not touched. One that was only announced may
    have been created, but no process was in it: it is removed if empty, which is all that ``rmdir`` does.
    """
    deadline = time.monotonic() + patience_s
    left = list(directories)
    while left := [directory for directory in left if not _is_gone_after_try(directory)]:
        if time.monotonic() > deadline:
            break
        time.sleep(PAUSE_S)
    return [path for path, _, _ in left]


def _is_gone_after_try(directory: Directory) -> bool:
    path, device, inode = directory
    try:
        run_id_of(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True  # removed in time, or never made; other directories are left alone
    except OSError:
        return os.path.islink(path)
    try:
        stat = os.fstat(descriptor)
        if inode and (stat.st_dev, stat.st_ino) != (device, inode):
            return True
        if inode:
            _empty(descriptor)
    finally:
        os.close(descriptor)
    return _remove(path)


def _remove(name: str, dir_fd: int | None = None) -> bool:
    try:
        os.rmdir(name, dir_fd=dir_fd)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # busy as long as a process in it is still dying
    return True


def _empty(group: int) -> None:
    """Kill all processes in a group, given by a descriptor, and remove the groups below."""
    _kill(group)
    for name in os.listdir(group):
        try:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=group)
        except OSError:
            continue  # a control file
        try:
            _empty(below)
        finally:
            os.close(below)
        _remove(name, group)


def _kill(group: int) -> None:
    if not _put(group, "cgroup.kill", b"1"):
        _kill_one_by_one(group)
    _put(group, "freezer.state", b"THAWED")  # in version 1 frozen processes cannot die


def _kill_one_by_one(group: int) -> None:
    """Kill processes that are in the group after a pidfd was opened: a process id may be reused meanwhile."""
    held = {pid: descriptor for pid in _members(group) if (descriptor := _hold(pid)) is not None}
    members = _members(group)
    for pid, descriptor in held.items():
        if pid in members:
            with contextlib.suppress(OSError):  # ended by itself; or not ours, and then the group remains
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)


def _hold(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _members(group: int) -> set[int]:
    try:
        descriptor = os.open("cgroup.procs", os.O_RDONLY | os.O_CLOEXEC, dir_fd=group)
    except OSError:
        return set()
    with open(descriptor, "rb") as file:
        return {int(pid) for pid in file.read().split()} - {0, os.getpid()}


def _put(group: int, name: str, text: bytes) -> bool:
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=group)
    except OSError:
        return False
    try:
        os.write(descriptor, text)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


# ---- the janitor's own process --------------------------------------------------------------------------------------


def main() -> None:
    """Entry point. Standard input: the pipe. Argument: the directory of the crash registry."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    directories = _listen(0)
    left = {run_id_of(path) for path in reap(list(directories.values()))}
    for run_id in {run_id_of(path) for path in directories} - left:
        unregister(sys.argv[1], run_id)
    os._exit(1 if left else 0)


def _listen(descriptor: int) -> dict[str, Directory]:
    """Read until no writer is left. The last line about a path counts."""
    text = b""
    while piece := os.read(descriptor, 65536):
        text += piece
    directories = {}
    for line in text.split(b"\n"):
        try:
            device, inode, path = os.fsdecode(line).split(" ", 2)
            run_id_of(path)
            directories[path] = path, int(device), int(inode)
        except ValueError:
            continue  # torn, or not ours to touch
    return directories


def unregister(registry: str, run_id: str) -> None:
    """Remove a run from the crash registry: nothing of it remains."""
    for name in (f"{run_id}.json", f".{run_id}.new"):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(registry, name))


if __name__ == "__main__":
    main()
