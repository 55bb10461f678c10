"""The use of every emulated host, period by period, as the kernel counts it."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import final

from runtime.live.machines.shared import SharedMachines
from runtime.record.cluster import HostRow


@final
class LiveHostUse:
    """Reads the counters of hosts that several jobs share.

    Processor seconds come from a host's control group, bytes (headers, too) from its link; NaN where there is no such
    counter.
    """

    def __init__(self, machines: SharedMachines, num_hosts: int) -> None:
        self._machines, self._num_hosts = machines, num_hosts
        self._counted = self._read()
        self._begun_s = 0.0

    def sample(self, now: float, gpus_used: Sequence[int]) -> list[HostRow]:
        """A row for each host, of the period that ends now; none for a period without length."""
        period_s, self._begun_s = now - self._begun_s, now
        before, self._counted = self._counted, self._read()
        if period_s <= 0:
            return []
        rows = []
        for host in range(self._num_hosts):
            cpu, out, into = (
                (new - old) / period_s for new, old in zip(self._counted[host], before[host], strict=True)
            )
            rows.append(HostRow(now, host, gpus_used[host], cpu, into, out))
        return rows

    def _read(self) -> list[tuple[float, float, float]]:
        """(Processor seconds, bytes out, bytes in) of every host so far."""
        network = self._machines.network
        numbers = range(self._num_hosts)
        links = [(nan, nan) for _ in numbers] if network is None else network.counters()
        return [(self._cpu_s(host), float(links[host][0]), float(links[host][1])) for host in numbers]

    def _cpu_s(self, host: int) -> float:
        group = self._machines.groups.get(f"host:{host}")
        if group is None or not self._machines.mechanisms.cpu_groups:
            return nan
        used_s = group.usage_s()
        return nan if used_s is None else used_s
