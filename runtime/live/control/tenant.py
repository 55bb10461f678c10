"""A live job of a set, as prevention measures and limits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from runtime.core.vectors import PARAMETER_BYTES
from runtime.live.tasks.usage import cpu_s
from strategies.protocol import NodeId, Timings

if TYPE_CHECKING:
    from runtime.live.control.job import LiveJob


@final
class LiveTenant:
    """Reads clocks of processes and reports of tasks; for the methods see :class:`runtime.core.host_sharing.Tenant`."""

    def __init__(self, job: LiveJob) -> None:
        self.coordinator = job.session.coordinator
        self._job = job
        self._used: dict[str, tuple[int, float, float]] = {}
        """Process of a server, its processor seconds at the last reading, and the seconds of its former processes."""

    def servers(self) -> Mapping[str, int]:
        supervisor, spec = self._job.session.supervisor, self._job.spec
        if spec.collective:
            return {}
        ranges = supervisor.members.layout.ranges(supervisor.num_parameters)
        return {str(server): (hi - lo) * spec.transfer_bits // 8 for server, (lo, hi) in ranges.items()}

    def core_seconds(self, node: str) -> float:
        pid = dict(self._job.session.supervisor.roster.pids).get(node, 0)
        before, last_s, earlier_s = self._used.get(node, (pid, 0.0, 0.0))
        used_s = cpu_s(pid) if pid else None
        if pid != before:
            last_s, earlier_s = 0.0, earlier_s + last_s
        self._used[node] = (pid, last_s if used_s is None else used_s, earlier_s)
        return sum(self._used[node][1:])

    def traffic(self) -> tuple[float, float]:
        """Bytes of the ring's messages, whose processor time is not measured, or of the gradient's parts."""
        session = self._job.session
        if not self._job.spec.collective:
            return float(sum(self.servers().values())), 0.0
        size = max(1, len(session.supervisor.roster.replicas))
        return 2 * (size - 1) / size * PARAMETER_BYTES * session.supervisor.num_parameters, 0.0

    def worked_s(self, worker: int, timings: Timings, samples: int) -> float:
        """A paced device hides how long its processor has worked: as long as it takes all of its cores."""
        if self._job.paced and not timings.overrun_s:
            return (timings.cpu_s or 0.0) / self.peak_cores(str(NodeId.worker(worker)))
        return timings.data_s + timings.compute_s - timings.injected_s

    def peak_cores(self, node: str) -> float:
        return self._job.machines.unlimited(node)

    def limit(self, node: str, cpu_cores: float | None, link_bytes_per_s: float | None) -> None:
        self._job.session.limited(node, cpu_cores, link_bytes_per_s)
