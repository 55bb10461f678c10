"""A source of jobs: one row per job, in the order of submission."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """One job as its source describes it; fields that it does not mention take the run's own settings."""

    job: str
    """Its name, unique in the source: letters, digits, ``-`` and ``_``, since its record's folder has it."""
    submit_s: float
    """Seconds since the start of the cluster's clock, 0 or more."""
    gpus: int
    """Number of workers; each has a GPU from the start of the job to its end."""
    duration_s: float | None = None
    """How long it runs alone and undisturbed; None: ``iterations`` say it, or the run's own settings."""
    iterations: int | None = None
    """Number of iterations of every worker."""
    servers: int | None = None
    """Number of parameter servers; None: as the run has it."""
    user: str = ""
    model: str = ""
    """Name of the model, which decides the cost model where the run has a table of them."""
    worker_cpu_cores: float | None = None
    """Processor cores that a worker uses on average: an estimate for placements; None: unknown."""
    server_cpu_cores: float | None = None
    worker_bytes_per_s: float | None = None
    """Bandwidth that a worker uses on average, in the busier direction: likewise."""
    server_bytes_per_s: float | None = None
    settings: tuple[str, ...] = ()
    """Settings of ``run.py``'s command line for this job alone."""


class Arrivals(Protocol):
    """A source of jobs; ``jobs=NAME`` chooses one."""

    @property
    def foreign(self) -> bool:
        """Whether its settings come from a file, which others may have written, and not from the command line."""
        return False

    def submissions(self, seed: int) -> list[Submission]:
        """All jobs in the order of submission (ties in the source's order), the first of them at 0 or later.

        Raises ``ValueError`` for data that make no sense, naming the row and the column.
        """
        ...
