"""How a run ended: its exit code, and whether somebody asked for its end."""

from __future__ import annotations

from typing import NamedTuple

from runtime.api import RunStatus
from runtime.errors import FAILED, NO_SPACE

EXIT_CODES: dict[RunStatus, int] = {
    "done": 0,
    "failed": FAILED,
    "stuck": FAILED,
    "disk_full": NO_SPACE,
    "interrupted": 130,
}


class JobFailed(RuntimeError):
    """The job ended with an error; its record has the history."""

    def __init__(self, message: str, exit_code: int = FAILED, interrupted_by: int = 0) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.interrupted_by = interrupted_by
        """The signal that came meanwhile."""


class Ending(NamedTuple):
    """How a job or a set of jobs ended."""

    exit_code: int
    """As its record says: 0 if that is ``done``, 128 + signal if it is ``interrupted``."""
    interrupted_by: int = 0
    """The signal that came meanwhile, upon which no other job starts; one that comes late finds the work done."""


def ending_of(status: RunStatus, interrupted_by: int) -> Ending:
    """The ending of a run with this status in its record."""
    code = 128 + interrupted_by if status == "interrupted" and interrupted_by else EXIT_CODES[status]
    return Ending(code, interrupted_by)
