"""Where a job stands: its time, and whether it goes on, is halted, or has ended (pure)."""

from __future__ import annotations

from runtime.core.job import Status


class Course:
    """Shared by all that decides about one job.

    ``halted``: nothing counts until the runtime has brought everybody to one version. ``status`` is None while the job
    runs; then ``reason`` says why it has ended so, at ``finished_s``.
    """

    __slots__ = ("finished_s", "halted", "reason", "status", "t")

    def __init__(self) -> None:
        self.t = 0.0
        self.halted = False
        self.status: Status | None = None
        self.reason = ""
        self.finished_s = 0.0

    def advance(self, t: float) -> float:
        """Time never decreases, however late a message is."""
        self.t = max(self.t, t)
        return self.t

    def finish(self, t: float, status: Status, reason: str) -> None:
        """End the job (the first reason counts)."""
        if self.status is None:
            self.finished_s = self.advance(t)
            self.status, self.reason = status, reason
