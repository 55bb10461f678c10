"""The recent needs of one job's tasks on shared hosts, as a policy of prevention is given them (pure)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from statistics import fmean
from typing import Protocol, final

from msgspec.structs import replace

from runtime.core.coordinator import Coordinator
from runtime.core.inputs import GradientArrived
from strategies.protocol import RESOURCES, JobLoad, NodeId, Share, TaskLoad, Timings

ITERATIONS = 10
"""Last iterations of a worker over which is averaged."""
WINDOW_S = 10.0
"""Seconds over which the use of servers is averaged ..."""
SAMPLE_S = 0.5
"""... from samples that are this far apart."""
GAIN_S = 120.0
"""Seconds over which a metric's improvement counts (STAR: 2 minutes)."""


class Meter(Protocol):
    """A runtime's readings of the use of one job's tasks; a node is named as in ``server:0``."""

    coordinator: Coordinator

    def servers(self) -> Mapping[str, int]:
        """Bytes of parameters by server; none where replicas exchange gradients."""

    def core_seconds(self, node: str) -> float:
        """The processor seconds of a server until now."""

    def traffic(self) -> tuple[float, float]:
        """Return a worker's additional work for an iteration: bytes that it sends, core-seconds of an update."""

    def worked_s(self, worker: int, timings: Timings, samples: int) -> float:
        """Seconds of an iteration in which a worker's processor loaded and computed, without sleep."""

    def peak_cores(self, node: str) -> float:
        """Cores that a task can use at the same time."""


@final
class Loads:
    """Measures one job on the machines that it shares."""

    def __init__(self, meter: Meter) -> None:
        self.meter, self.coordinator = meter, meter.coordinator
        self._iterations: dict[int, deque[tuple[Timings, float]]] = {}
        """Last iterations of every worker, with the seconds for which its processor worked."""
        self._samples: deque[tuple[float, int, dict[str, float]]] = deque()
        self._arrived = 0

    def arrived(self, given: GradientArrived) -> None:
        """A gradient has arrived, which the coordinator does not know yet; one that nobody awaits does not count."""
        worker, order = given.worker, self.coordinator.ledger.busy.get(given.worker)
        if order is None or order.grad_id != given.grad_id:
            return
        self._arrived += 1
        if order.samples:
            worked_s = self.meter.worked_s(worker, given.timings, order.samples)
            self._iterations.setdefault(worker, deque(maxlen=ITERATIONS)).append((given.timings, worked_s))

    def sample(self, t: float) -> None:
        """Read what the servers have used until ``t``, on any clock."""
        used = {name: self.meter.core_seconds(name) for name in self.meter.servers()}
        self._samples.append((t, self._arrived, used))
        while len(self._samples) > 2 and self._samples[1][0] <= t - WINDOW_S:
            self._samples.popleft()

    @property
    def known(self) -> bool:
        """Whether every worker has delivered a gradient, so that it is known what it needs."""
        here = self.coordinator.members.here()
        return bool(self._iterations) and all(worker in self._iterations for worker in here)

    def measured(self, job: str, t: float, model: str, *, asks: bool, held: Mapping[str, Share]) -> JobLoad:
        """Return the job's needs; for a job that ``asks``, its workers' waiting counts.

        ``held``: the shares of tasks that were granted or left some, which these hold.
        """
        self.sample(t)
        gradients_s, cores = self._averages()
        workers = [worker for worker in self.coordinator.members.here() if worker in self._iterations]
        tasks = [
            *(self._worker(worker, gradients_s, asks) for worker in workers),
            *(
                self._server(node, float(sent_bytes), gradients_s, cores[node])
                for node, sent_bytes in self.meter.servers().items()
            ),
        ]
        groups = self.coordinator.strategy.waiting_groups()
        gain = self.coordinator.evaluations.gained(self.coordinator.course.t, GAIN_S)
        return JobLoad(
            job=job,
            tasks=tuple(_holding(task, held[task.node]) if task.node in held else task for task in tasks if task.host),
            groups=tuple(tuple(str(NodeId.worker(worker)) for worker in group) for group in groups),
            gain=1.0 if gain is None else gain,
            model=model,
        )

    def _averages(self) -> tuple[float, dict[str, float]]:
        """Gradients per second, and the cores of every server, over the window."""
        (begun_s, arrived, used), (now_s, arrived_now, used_now) = self._samples[0], self._samples[-1]
        if now_s <= begun_s:
            return 0.0, dict.fromkeys(used_now, 0.0)
        seconds = now_s - begun_s
        cores = {name: (amount - used.get(name, 0.0)) / seconds for name, amount in used_now.items()}
        return (arrived_now - arrived) / seconds, cores

    def _worker(self, worker: int, gradients_s: float, asks: bool) -> TaskLoad:
        iterations, node = self._iterations[worker], str(NodeId.worker(worker))
        sent_bytes, update_cpu_s = self.meter.traffic()
        cpu_s = fmean(timings.cpu_s or 0.0 for timings, _ in iterations) + update_cpu_s
        # replicas send while they make an update, which is their pull
        updating_s = 0.0 if self.meter.servers() else fmean(timings.pull_s for timings, _ in iterations)
        worked_s = fmean(worked_s for _, worked_s in iterations) + updating_s
        sending_s = fmean(timings.send_s for timings, _ in iterations) + updating_s
        own_s = fmean(timings.own_s for timings, _ in iterations) + updating_s
        per_s = gradients_s / max(1, len(self.coordinator.members.here())) if asks else 1.0 / own_s
        return TaskLoad(
            node=node,
            host=self.coordinator.place_of(node) or "",
            cpu_cores=per_s * cpu_s,
            link_bytes_per_s=per_s * sent_bytes,
            peak_cores=min(cpu_s / worked_s, self.meter.peak_cores(node)) if worked_s > 0 else math.inf,
            peak_bytes_per_s=sent_bytes / sending_s if sending_s > 0 else math.inf,
            cpu_s=cpu_s,
            sent_bytes=sent_bytes,
            iter_s=own_s,
        )

    def _server(self, node: str, sent_bytes: float, gradients_s: float, cores: float) -> TaskLoad:
        count = len(self.coordinator.members.here())
        return TaskLoad(
            node=node,
            host=self.coordinator.place_of(node) or "",
            cpu_cores=cores,
            link_bytes_per_s=gradients_s * sent_bytes,
            peak_cores=self.meter.peak_cores(node),
            cpu_s=cores * count / gradients_s if gradients_s else 0.0,
            sent_bytes=sent_bytes * count,
        )


def _holding(task: TaskLoad, share: Share) -> TaskLoad:
    """The task with the share that it was granted or left."""
    given = {resource: amount for resource in RESOURCES if (amount := getattr(share, resource)) is not None}
    return replace(task, fixed=frozenset(given), **given)
