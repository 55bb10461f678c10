"""The janitor: a small process that outlives a run and removes its control groups, which no namespace takes away.

It reads the names of directories from a pipe until nobody holds the other end any more, which the kernel sees to
however a run ends. Then it kills what is left in them, removes them, removes the run from the crash registry
(``runtime.live.machines.crash_registry``) and ends.

**Who may hold the writing end**: the process that started the janitor and those forked from it to go on with the run
(``runtime.containment``). Programs that these start get it only where asked (``Janitor.share``). Whoever holds it
puts the cleaning off, so tasks must not. How one is started stands in :mod:`runtime.live.machines.janitor_process`.

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
"""Path, device and inode of a control group. Inode 0: announced, and not there when last looked at."""

PREFIX = "stragglab-"
RUN_ID_DIGITS = 16
PATIENCE_S = 5.0
PAUSE_S = 0.01
MAX_LINE_BYTES = 4096
"""What the kernel writes to a pipe in one piece (PIPE_BUF)."""
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)


# ---- how control groups are removed ---------------------------------------------------------------------------------


def identify(path: str) -> Directory:
    """A directory by more than its name."""
    try:
        stat = os.lstat(path)
    except FileNotFoundError:
        return path, 0, 0
    return path, stat.st_dev, stat.st_ino


def run_id_of(path: str) -> str:
    """The run that a directory belongs to; raises ``ValueError`` for what is not a run's directory."""
    name = os.path.basename(path)
    run_id = name.removeprefix(PREFIX)
    known = name.startswith(PREFIX) and len(run_id) == RUN_ID_DIGITS and not run_id.strip("0123456789abcdef")
    if not known or not os.path.isabs(path) or "\n" in path:
        raise ValueError(
            f"{path!r}: the directory of a run is absolute and ends in {PREFIX}<{RUN_ID_DIGITS} hex digits>"
        )
    return run_id


def reap(directories: list[Directory], patience_s: float = PATIENCE_S) -> list[str]:
    """Kill what is in these groups and in those below, and remove them. Returns the paths that are still there.

    A directory that was not made by the run (another device or inode) is not touched. One that was only announced can
    have been made, but nobody was in it then: it is removed if it is empty, which is all that ``rmdir`` does.
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
        return True  # removed in time, or never made; what is no directory of a run is nobody's business here
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
    return _removed(path)


def _removed(name: str, dir_fd: int | None = None) -> bool:
    try:
        os.rmdir(name, dir_fd=dir_fd)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # busy as long as somebody in it is still dying
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
        _removed(name, group)


def _kill(group: int) -> None:
    if not _put(group, "cgroup.kill", b"1"):
        _kill_one_by_one(group)
    _put(group, "freezer.state", b"THAWED")  # version 1 lets nobody die who is frozen


def _kill_one_by_one(group: int) -> None:
    """Only those that are in the group when we already hold on to them: a number may go to somebody else meanwhile."""
    held = {pid: descriptor for pid in _members(group) if (descriptor := _hold(pid)) is not None}
    members = _members(group)
    for pid, descriptor in held.items():
        if pid in members:
            with contextlib.suppress(OSError):  # gone by itself; or somebody else's, and then the group stays
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
    """Standard input: the pipe. Argument: the directory of the ledger."""
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
    """Until nobody is left who could write. What is said last about a path counts."""
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


def unregister(ledger: str, run_id: str) -> None:
    """Nothing is left of a run: take it out of the ledger."""
    for name in (f"{run_id}.json", f".{run_id}.new"):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(ledger, name))


if __name__ == "__main__":
    main()
