"""The plan that a job begins with, from the peak use of similar finished jobs (pure).

The paper names the inputs, "information of completed jobs that are using the same table" (DLRover section 4.3), and no
formula; the margins come from the public brain.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import fmean, median_low

import msgspec

from reading.ranges import check_settings
from strategies.dlrover.plan import WHOLE, Limits
from strategies.protocol import FinishedJob

LAST = 5
"""Finished jobs that count."""
CORES_MARGIN, MEMORY_MARGIN = 1.5, 1.2
"""Factor by which a plan exceeds the used cores of servers and the used memory of nodes."""


class InitialPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that a job is started with, and where that is from: ``dataset`` or ``workload``."""

    workers: int
    worker_cores: int
    worker_bytes: int
    servers: int
    server_cores: int
    server_bytes: int
    source: str

    @property
    def cores(self) -> int:
        """All cores of the job together."""
        return self.workers * self.worker_cores + self.servers * self.server_cores


def check_history(history: object, history_of: object) -> None:
    """Raise ``ValueError`` unless the one holds jobs that can have been, the other names a workload and its data."""
    if not isinstance(history, list | tuple) or not all(isinstance(job, FinishedJob) for job in history):
        raise ValueError(f"history={history}: must be a list of finished jobs")
    for place, job in enumerate(history):
        try:
            check_settings(job)
        except ValueError as error:
            raise ValueError(f"history[{place}].{error}") from None
    if not isinstance(history_of, list | tuple) or [type(name) for name in history_of] != [str, str]:
        raise ValueError(f"history_of={history_of}: must be the names of a workload and a data set")


def initial_plan(jobs: Sequence[FinishedJob], workload: str, dataset: str, limits: Limits) -> InitialPlan | None:
    """From the last jobs of the same workload and dataset, else of the same workload; None: there are none.

    Element by element: servers for the largest sum of used cores and a margin, the mean worker's cores rounded up, the
    median number of workers, the largest memory and a margin. A plan above ``cores_total`` is cut: workers first.

    Args:
        jobs: finished ones, the oldest first.
        workload: of the new job.
        dataset: of the new job.
        limits: what the new job may have.

    Raises:
        ValueError: one worker and one server of these exceed ``cores_total``.
    """
    alike = [job for job in jobs if job.workload == workload]
    same = [job for job in alike if job.dataset == dataset]
    last = (same or alike)[-LAST:]
    if not last:
        return None
    server_cores = CORES_MARGIN * max(job.server_cores_used for job in last)
    worker_cores = max(1, min(ceil(fmean(job.worker_cores_used for job in last) - WHOLE), limits.cores_max))
    if worker_cores + limits.server_cores > limits.cores_total:
        raise ValueError(
            f"cores_total={limits.cores_total}: earlier jobs had workers of {worker_cores} cores, which with one "
            f"server of {limits.server_cores} need {worker_cores + limits.server_cores}"
        )
    servers = max(1, ceil(server_cores / limits.server_cores - WHOLE))
    servers = min(servers, (limits.cores_total - worker_cores) // limits.server_cores)
    room = (limits.cores_total - servers * limits.server_cores) // worker_cores
    return InitialPlan(
        workers=max(1, min(median_low(job.workers for job in last), room)),
        worker_cores=worker_cores,
        worker_bytes=ceil(MEMORY_MARGIN * max(job.worker_bytes for job in last) - WHOLE),
        servers=servers,
        server_cores=limits.server_cores,
        server_bytes=ceil(MEMORY_MARGIN * max(job.server_bytes for job in last) - WHOLE),
        source="dataset" if same else "workload",
    )
