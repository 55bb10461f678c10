"""A job of a lab on the virtual clock, as prevention measures and limits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from runtime.virtual.machines.tenancy import Tenancy
from strategies.protocol import NodeId, Timings

if TYPE_CHECKING:
    from runtime.virtual.control.session import VirtualSession


@final
class VirtualTenant:
    """Reads what the model says; for the methods see :class:`runtime.core.host_sharing.Tenant`."""

    def __init__(self, session: VirtualSession, tenancy: Tenancy) -> None:
        self.coordinator = session.coordinator
        self._session, self._tenancy = session, tenancy

    def servers(self) -> Mapping[str, int]:
        servers = self._session.servers
        return dict(zip(servers.names, servers.num_bytes, strict=True)) if servers.tasks else {}

    def core_seconds(self, node: str) -> float:
        return self._tenancy.core_seconds(node)

    def traffic(self) -> tuple[float, float]:
        return self._session.servers.traffic()

    def worked_s(self, worker: int, timings: Timings, samples: int) -> float:
        """Without the sleep of a paced device."""
        workers = self._session.workers
        if workers.profiles[worker] is None or timings.overrun_s:
            return timings.data_s + (timings.compute_s - timings.injected_s)
        return timings.data_s + workers.costs.compute_s(samples)

    def peak_cores(self, node: str) -> float:
        costs = self._session.workers.costs
        return costs.worker_cores if NodeId.parse(node).role == "worker" else costs.server_cores

    def limit(self, node: str, cpu_cores: float | None, link_bytes_per_s: float | None) -> None:
        if self._tenancy.limit(node, cpu_cores, link_bytes_per_s):
            self._session.limited(node, cpu_cores, link_bytes_per_s)
