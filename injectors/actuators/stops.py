"""Which processes are stopped, and why: several reasons may hold one process, which goes on when the last one goes.

Only the parent of the processes may own this, and must :meth:`~Stops.forget` what it has reaped: until then a pid
cannot be anybody else's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import final

WATCH_S = 0.1
"""How often, at least, who is to stand still is to be told so again: somebody else may have continued it."""


@final
class Stops:
    """SIGSTOP with the first reason, SIGCONT when the last one goes; a process that is gone is forgotten.

    A stopped process reacts to SIGKILL at once, and to nothing else: it sends no sign of life either. It tells its
    parent of every stop and continue by a SIGCHLD.
    """

    def __init__(self, send: Callable[[int, int], None] = os.kill) -> None:
        self._send = send
        self._reasons: dict[int, set[str]] = {}

    def hold(self, pid: int, reason: str) -> None:
        """Stop a process, or keep it stopped: repeated, it undoes a SIGCONT that somebody else has sent."""
        self._reasons.setdefault(pid, set()).add(reason)
        self._tell(pid, signal.SIGSTOP)

    def release(self, pid: int, reason: str) -> None:
        """Let it go on, unless there is another reason."""
        reasons = self._reasons.get(pid, set())
        if reason not in reasons:
            return
        reasons.remove(reason)
        if not reasons:
            del self._reasons[pid]
            self._tell(pid, signal.SIGCONT)

    def renew(self, pid: int) -> None:
        """Tell a process again what it is to do, stand still or go on: somebody else may have told it otherwise."""
        self._tell(pid, signal.SIGSTOP if pid in self._reasons else signal.SIGCONT)

    def reasons(self, pid: int) -> list[str]:
        """Why a process is stopped; empty if it is not."""
        return sorted(self._reasons.get(pid, ()))

    def forget(self, pid: int) -> None:
        """It is gone: its number may be somebody else's from now on."""
        self._reasons.pop(pid, None)

    def close(self) -> None:
        """Everybody goes on."""
        for pid in list(self._reasons):
            self._tell(pid, signal.SIGCONT)
        self._reasons.clear()

    def _tell(self, pid: int, number: int) -> None:
        try:
            self._send(pid, number)
        except ProcessLookupError:
            self.forget(pid)
