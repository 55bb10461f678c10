"""The course of a job: its time, and whether it runs, is halted, or has ended (pure)."""

from __future__ import annotations

from runtime.core.job import Status


class Course:
    """The state of one job that all deciding objects share.

    ``halted``: all work is void until the runtime has brought all tasks to one version, ``halted_s``: since when.
    ``status`` is None while the job runs; then ``reason`` explains it, and ``finished_s`` is its time.
    """

    __slots__ = ("finished_s", "halted", "halted_s", "reason", "status", "t")

    def __init__(self) -> None:
        self.t = 0.0
        self.halted = False
        self.halted_s = 0.0
        self.status: Status | None = None
        self.reason = ""
        self.finished_s = 0.0

    def advance(self, t: float) -> float:
        """Advance the time, which never decreases, however late a message is."""
        self.t = max(self.t, t)
        return self.t

    def halt(self) -> None:
        """All work is void from now on."""
        if not self.halted:
            self.halted, self.halted_s = True, self.t

    def finish(self, t: float, status: Status, reason: str) -> None:
        """End the job (the first reason counts)."""
        if self.status is None:
            self.finished_s = self.advance(t)
            self.status, self.reason = status, reason
