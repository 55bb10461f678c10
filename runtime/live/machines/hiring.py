"""Whoever makes control groups hires a janitor first, and entrusts every directory to it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from runtime.live.machines import janitor
from runtime.live.machines.janitor import MAX_LINE_BYTES, PATIENCE_S, PAUSE_S, identify, run_id_of
from runtime.live.machines.leftovers import Ledger, Owner, this_process


class Janitor:
    """What a run knows of its janitor. ``writing``: the end of the pipe; when nobody holds it, the cleaning begins."""

    def __init__(self, pid: int, writing: int, ledger: Ledger, owner: Owner) -> None:
        self.pid, self.writing, self.ledger, self.owner = pid, writing, ledger, owner

    def entrust(self, path: Path) -> None:
        """The directory of a run: once before it is made, so that no moment is left out, and again when it is there."""
        directory = identify(str(path))
        run_id = run_id_of(str(path))
        line = os.fsencode(f"{directory[1]} {directory[2]} {path}\n")
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"{path}: a path of more than {MAX_LINE_BYTES} bytes cannot be entrusted to the janitor")
        self.ledger.claim(self.owner, run_id)
        try:
            os.write(self.writing, line)  # first, since it strikes from the ledger what it has heard of
        except BrokenPipeError:
            raise RuntimeError(
                f"the janitor (process {self.pid}) has ended, so nobody would remove the run's control groups after a "
                "crash; find out who killed it and start the run again"
            ) from None
        self.ledger.add(self.owner, run_id, directory)

    def share(self) -> int:
        """Let programs that are started from now on hold the writing end too; returns its descriptor."""
        os.set_inheritable(self.writing, True)
        return self.writing

    def dismiss(self, patience_s: float = PATIENCE_S + 1.0) -> bool:
        """Let go of the writing end and wait for the cleaning, as its hirer; whether nothing is left.

        Not needed: the end of the hirer does the same. False as well when others still hold that end.
        """
        os.close(self.writing)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status) == 0
            time.sleep(PAUSE_S)
        return False


_hired: list[Janitor] = []


def start_janitor() -> Janitor:
    """A janitor for all runs of this process and of those that it forks.

    Start it before namespaces and control groups are entered, so that it is in none of them.
    """
    ledger = Ledger()
    reading, writing = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", os.path.abspath(janitor.__file__), str(ledger.path)],
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
    return Janitor(pid, writing, ledger, this_process())


def hire() -> Janitor:
    """The janitor of this process: started when it is first asked for, after what crashed runs left is removed."""
    if not _hired:
        ours = start_janitor()
        ours.ledger.reap_crashed()
        _hired.append(ours)
    return _hired[0]


def entrust(path: Path) -> None:
    """Tell the janitor that this process, or the one that it was forked from, has hired."""
    if not _hired:
        raise RuntimeError(
            f"{path}: nobody would remove it after a crash; call runtime.live.machines.hiring.hire() first"
        )
    _hired[0].entrust(path)
