"""The use of every host of a cluster, period by period."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import final

from runtime.record.cluster import HostRow
from runtime.virtual.machines.machines import ModelledMachines


@final
class HostUse:
    """Samples machines that several jobs share.

    Args:
        names: of the machines (``host:2``), by the number of the host.
    """

    def __init__(self, machines: ModelledMachines, names: Sequence[str]) -> None:
        self._machines, self._names = machines, names
        self._number = {name: number for number, name in enumerate(names)}
        self._core_s = [0.0] * len(names)
        """Of this period so far, of tasks that have left."""
        self._task_s: dict[str, float] = {}
        """Core-seconds of every present task, at the beginning of this period."""
        self._bytes = [(0.0, 0.0)] * len(names)
        self._begun_s = 0.0

    def leaving(self, job: str) -> None:
        """The tasks of a job are about to leave: count what they have done."""
        self._machines.clock.catch_up()
        self._count([task for task in self._machines.sites if task.startswith(f"{job}/")])

    def sample(self, now: float, gpus_used: Sequence[int]) -> list[HostRow]:
        """A row for each host, of the period that ends now; none for a period without length."""
        self._machines.clock.catch_up()
        period_s, self._begun_s = now - self._begun_s, now
        if period_s <= 0:
            return []
        self._count(list(self._machines.sites))
        rows = []
        for host, name in enumerate(self._names):
            sent, received = self._machines.bytes_of(name)
            sent_before, received_before = self._bytes[host]
            self._bytes[host] = (sent, received)
            rows.append(
                HostRow(
                    now,
                    host,
                    gpus_used[host],
                    self._core_s[host] / period_s,
                    (received - received_before) / period_s,
                    (sent - sent_before) / period_s,
                )
            )
        self._core_s = [0.0] * len(self._names)
        return rows

    def _count(self, tasks: Collection[str]) -> None:
        """Add what these tasks have done since they were last counted to the hosts that they are on."""
        for task in tasks:
            done_s = self._machines.core_seconds(task)
            self._core_s[self._number[self._machines.sites[task].name]] += done_s - self._task_s.get(task, 0.0)
            self._task_s[task] = done_s
        if len(self._task_s) > 2 * len(self._machines.sites) + 100:
            self._task_s = {task: done_s for task, done_s in self._task_s.items() if task in self._machines.sites}
