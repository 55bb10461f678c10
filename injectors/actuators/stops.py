"""Tracks which processes are stopped and why: a process with several reasons continues when the last one is removed.

Only the parent of the processes may own this. It must :meth:`~Stops.forget` what it has reaped; until then a pid cannot
be reused.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import final

WATCH_S = 0.1
"""Interval at which SIGSTOP is repeated at least: another process may have sent a SIGCONT."""


@final
class Stops:
    """Sends SIGSTOP with the first reason and SIGCONT when the last one is removed; forgets processes that are gone.

    A stopped process reacts to nothing but SIGKILL; in particular it sends no heartbeat. Its parent gets a SIGCHLD for
    every stop and continue.
    """

    def __init__(self, send: Callable[[int, int], None] = os.kill) -> None:
        self._send = send
        self._reasons: dict[int, set[str]] = {}

    def hold(self, pid: int, reason: str) -> None:
        """Stop a process for this reason. Repeating it undoes a SIGCONT from someone else."""
        self._reasons.setdefault(pid, set()).add(reason)
        self._tell(pid, signal.SIGSTOP)

    def release(self, pid: int, reason: str) -> None:
        """Remove a reason; the process continues if it was the last one."""
        reasons = self._reasons.get(pid, set())
        if reason not in reasons:
            return
        reasons.remove(reason)
        if not reasons:
            del self._reasons[pid]
            self._tell(pid, signal.SIGCONT)

    def renew(self, pid: int) -> None:
        """Send a process its current signal again, SIGSTOP or SIGCONT: someone else may have changed its state."""
        self._tell(pid, signal.SIGSTOP if pid in self._reasons else signal.SIGCONT)

    def reasons(self, pid: int) -> list[str]:
        """The reasons why a process is stopped; empty if it is running."""
        return sorted(self._reasons.get(pid, ()))

    def forget(self, pid: int) -> None:
        """Forget a process that is gone, since its pid may be reused."""
        self._reasons.pop(pid, None)

    def close(self) -> None:
        """Continue every stopped process."""
        for pid in list(self._reasons):
            self._tell(pid, signal.SIGCONT)
        self._reasons.clear()

    def _tell(self, pid: int, number: int) -> None:
        try:
            self._send(pid, number)
        except ProcessLookupError:
            self.forget(pid)
