"""The use of tasks and hosts on the virtual clock, as the live runtime samples it: events ``Observed``.

The machine model integrates: finished work and messages, and those in progress up to now. Without machines a worker's
processor time counts when its gradient is there, so a period should be longer than an iteration, and a server's when it
reports. Memory is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import final

from runtime.cluster.hosts import Placement, limits_of
from runtime.virtual.machines.sites import PAYLOAD_FRAC
from runtime.virtual.machines.tenancy import Machines
from strategies.protocol import NodeId, NodeUse


@final
class Usage:
    """The present use of one job's ``tasks``, and of the hosts of its ``placement``.

    ``machines`` None: times without machines; ``cores`` says how many cores a task uses while it works, and may use.
    """

    def __init__(
        self,
        tasks: Callable[[], Collection[str]],
        machines: Machines | None,
        placement: Placement | None,
        cores: Callable[[str], tuple[float, float | None]] = lambda task: (1.0, None),
    ) -> None:
        self.tasks_now, self.machines, self.placement, self.cores = tasks, machines, placement, cores
        hosts = () if placement is None else placement.hosts.hosts
        self._named = [(f"host:{host.number}", host.number, limits_of(host)) for host in hosts]
        self.tasks: tuple[str, ...] = ()
        self._worked_s: dict[str, float] = {}
        self._before: dict[str, float] = {}
        self._busy_s: dict[str, float] = {}
        self._at_s: float | None = None

    def served(self, server: int, busy_s: float, injected_s: float = 0.0) -> None:
        """Add what a server was busy for, of which it slept for ``injected_s``."""
        name = str(NodeId.server(server))
        self._busy_s[name] = self._busy_s.get(name, 0.0) + busy_s
        self._worked_s[name] = self._worked_s.get(name, 0.0) + busy_s - injected_s

    def worked(self, worker: int, seconds: float) -> None:
        """Add what a worker has loaded and computed for."""
        name = str(NodeId.worker(worker))
        self._worked_s[name] = self._worked_s.get(name, 0.0) + seconds

    def sample(self, now: float) -> tuple[float, tuple[NodeUse, ...]]:
        """(seconds since the last sample, use of every task and host since then); the first only starts to count."""
        period_s = 0.0 if self._at_s is None else now - self._at_s
        self._at_s = now
        self.tasks = tuple(self.tasks_now())
        used, busy_s = self._since_last(), self._busy_s
        self._busy_s, self._worked_s = {}, {}
        if period_s <= 0:
            return period_s, ()
        tasks = {task: self._task(task, used, busy_s.get(task), period_s) for task in self.tasks}
        return period_s, (*tasks.values(), *self._hosts(tasks, used, period_s))

    def _since_last(self) -> dict[str, float]:
        if self.machines is None:
            return {task: self._worked_s.get(task, 0.0) * self.cores(task)[0] for task in self.tasks}
        sums = {task: self.machines.core_seconds(task) for task in self.tasks}
        for host, _, _ in self._named:
            sums[f"out {host}"], sums[f"in {host}"] = self.machines.bytes_of(host)
        before, self._before = self._before, sums
        used = {name: value - before.get(name, 0.0) for name, value in sums.items()}
        if self.placement is None:  # machines of its own: a task works on as many cores as it has and can use
            used |= {task: used[task] * self.cores(task)[0] for task in self.tasks}
        return used

    def _task(self, task: str, used: dict[str, float], busy_s: float | None, period_s: float) -> NodeUse:
        placement = self.placement
        host = None if placement is None or task not in placement.host_of else placement.host(task)
        return NodeUse(
            node=task,
            cpu_cores=used[task] / period_s,
            busy_frac=None if busy_s is None else busy_s / period_s,
            **limits_of(host, self.cores(task)[1]),
        )

    def _hosts(self, tasks: dict[str, NodeUse], used: dict[str, float], period_s: float) -> list[NodeUse]:
        if self.placement is None:
            return []
        return [
            NodeUse(
                node=name,
                cpu_cores=sum([tasks[one].cpu_cores or 0.0 for one in self.placement.tasks_on[number] if one in tasks]),
                out_bytes_per_s=used[f"out {name}"] / PAYLOAD_FRAC / period_s,
                in_bytes_per_s=used[f"in {name}"] / PAYLOAD_FRAC / period_s,
                **limits,
            )
            for name, number, limits in self._named
        ]
