"""The administrator: the use of jobs while they run, and of finished jobs (DLRover section 4.3; pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, final

import msgspec

from strategies.protocol import FinishedJob, NodeId, NodeUse
from strategies.protocol.finished import WINDOW

MEMORY_BYTES = 8 * 2**30
"""Memory of a node that was not sampled."""


@final
class JobUse:
    """One job's use, sample by sample: peaks, and the last samples.

    Args:
        unit_cores: cores of the job's machines that its strategy counts as one.
    """

    def __init__(self, unit_cores: float = 1.0) -> None:
        self._unit_cores = unit_cores
        self._rows: deque[dict[str, list[float]]] = deque(maxlen=WINDOW)
        self._server_cores = 0.0
        self._bytes = {"worker": 0, "server": 0}

    def observe(self, uses: Iterable[NodeUse]) -> None:
        """One sample of all nodes; without a worker's cores it says nothing."""
        row: dict[str, list[float]] = {"worker": [], "server": []}
        for use in uses:
            role = NodeId.parse(use.node).role
            if use.cpu_cores is not None and role in row:
                row[role].append(use.cpu_cores / self._unit_cores)
                self._bytes[role] = max(self._bytes[role], use.memory_bytes or 0)
        if row["worker"]:
            self._rows.append(row)
            if len(self._rows) == WINDOW:
                self._server_cores = max(self._server_cores, self._mean_server_cores())

    def finished(self, workload: str, dataset: str) -> FinishedJob | None:
        """Its needs; None: nothing was sampled."""
        if not self._rows:
            return None
        at_end = [cores for row in self._rows for cores in row["worker"]]
        return FinishedJob(
            workload=workload,
            dataset=dataset,
            server_cores_used=max(self._server_cores, self._mean_server_cores()),
            worker_cores_used=sum(at_end) / len(at_end),
            workers=len(self._rows[-1]["worker"]),
            worker_bytes=self._bytes["worker"] or MEMORY_BYTES,
            server_bytes=self._bytes["server"] or MEMORY_BYTES,
        )

    def _mean_server_cores(self) -> float:
        return sum(sum(row["server"]) for row in self._rows) / len(self._rows)


@final
class Administrator:
    """The finished jobs of a set, by their workload, the oldest first."""

    def __init__(self) -> None:
        self._finished: dict[str, list[FinishedJob]] = {}

    def add(self, job: FinishedJob) -> None:
        """A job has done its work."""
        self._finished.setdefault(job.workload, []).append(job)

    def history(self, workload: str) -> list[dict[str, Any]]:
        """Those that trained the same, as settings."""
        return [msgspec.to_builtins(job) for job in self._finished.get(workload, ())]
