"""Starts the janitor, and registers every directory that a run creates, so that a crash leaves none behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from runtime.live.machines import janitor
from runtime.live.machines.crash_registry import CrashRegistry, OwningProcess, this_process
from runtime.live.machines.janitor import MAX_LINE_BYTES, PATIENCE_S, PAUSE_S, identify, run_id_of


class Janitor:
    """A run's handle of its janitor. ``writing``: the end of the pipe; cleaning begins when no process holds it."""

    def __init__(self, pid: int, writing: int, registry: CrashRegistry, owner: OwningProcess) -> None:
        self.pid, self.writing, self.registry, self.owner = pid, writing, registry, owner

    def register(self, path: Path) -> None:
        """Register a run's directory: once before it is created, so that there is no gap, and again afterwards."""
        directory = identify(str(path))
        run_id = run_id_of(str(path))
        line = os.fsencode(f"{directory[1]} {directory[2]} {path}\n")
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(
                f"{path}: a path of more than {MAX_LINE_BYTES} bytes cannot be registered with the janitor"
            )
        self.registry.claim(self.owner, run_id)
        try:
            os.write(self.writing, line)  # first, since the janitor removes registered directories from the registry
        except BrokenPipeError:
            raise RuntimeError(
                f"the janitor (process {self.pid}) has ended, so the run's control groups would remain after a "
                "crash; find out what killed it and start the run again"
            ) from None
        self.registry.add(self.owner, run_id, directory)

    def share(self) -> int:
        """Let programs that are started from now on inherit the writing end; returns its descriptor."""
        os.set_inheritable(self.writing, True)
        return self.writing

    def dismiss(self, patience_s: float = PATIENCE_S + 1.0) -> bool:
        """Close the writing end and wait for the cleaning, in the process that started it; whether nothing remains.

        Optional: the end of that process does the same. False also if other processes still hold that end.
        """
        os.close(self.writing)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status) == 0
            time.sleep(PAUSE_S)
        return False


_janitors: list[Janitor] = []


def start_janitor() -> Janitor:
    """Start a janitor for all runs of this process and of those that it forks.

    Start it before namespaces and control groups are entered, so that it is in none of them.
    """
    registry = CrashRegistry()
    reading, writing = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", os.path.abspath(janitor.__file__), str(registry.path)],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return Janitor(pid, writing, registry, this_process())


def the_janitor() -> Janitor:
    """The janitor of this process: started at the first call, after what crashed runs left is removed."""
    if not _janitors:
        ours = start_janitor()
        ours.registry.reap_crashed()
        _janitors.append(ours)
    return _janitors[0]


def register(path: Path) -> None:
    """Register a directory with the janitor of this process, or of the one from which it was forked."""
    if not _janitors:
        raise RuntimeError(f"{path}: it would remain after a crash; call {__name__}.the_janitor() first")
    _janitors[0].register(path)
