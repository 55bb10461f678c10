"""The needs of a job, known when it has finished: from these, later jobs of its kind may begin."""

from __future__ import annotations

import msgspec

from reading.ranges import NonNegativeFloat, PositiveInt

WINDOW = 5
"""Observations that used cores are the mean of."""


class FinishedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of one job. Cores and bytes are peaks; ``worker_cores_used`` is its w_hat, the last one measured."""

    workload: str
    dataset: str
    """In a set of jobs: the job's user."""
    server_cores_used: NonNegativeFloat
    """Cores that all servers used together."""
    worker_cores_used: NonNegativeFloat
    workers: PositiveInt
    """Number of workers at the job's end."""
    worker_bytes: PositiveInt
    server_bytes: PositiveInt
