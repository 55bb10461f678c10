"""Resource use of tasks and hosts, sampled periodically by the coordinator; strategies receive it as ``Observed``.

Read from the kernel: the processor clock of a process, its memory, the counters of the hosts' links. No message to
tasks is needed. On other machines their agents read, and send what they have read (``Sampled``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from runtime.cluster.hosts import Placement, limits_of
from runtime.live.control.gpu_use import GpuUse
from runtime.live.tasks.usage import cpu_s, resident_bytes
from runtime.live.transport.messages import Sampled
from strategies.protocol import NodeId, NodeUse


class Reading(NamedTuple):
    """A process's use when its machine's clock showed ``at_s``; None if it is gone, or nothing was read yet."""

    at_s: float
    cpu_s: float | None
    memory_bytes: int | None


Read = Callable[[str, int, float], Reading]
"""Reads the use of a task's process, from the task's name, its process id and the present time."""


class Elsewhere:
    """The newest readings of agents on other machines, of whose clocks only differences are used."""

    def __init__(self) -> None:
        self._readings: dict[str, tuple[int, Reading]] = {}

    def receive(self, message: Sampled) -> None:
        """An agent has read what its tasks use."""
        for name, pid, used_s, memory_bytes in message.tasks:
            self._readings[name] = pid, Reading(message.at_s, used_s, memory_bytes)

    def read(self, name: str, pid: int, now: float) -> Reading:
        """The newest reading of a process."""
        known, reading = self._readings.get(name, (pid, Reading(now, None, None)))
        return reading if known == pid else Reading(now, None, None)


def read_here(name: str, pid: int, now: float) -> Reading:
    """Read a process of this machine."""
    return Reading(now, cpu_s(pid), resident_bytes(pid))


class Sampler:
    """Samples use; ``links`` reads (bytes out, bytes in) of every host of the ``placement``; None: no hosts.

    ``own_limits`` says of a task how many cores and how much memory (bytes) it was given as limits of its own, ``read``
    what its process uses, and ``gpu_of`` how busy its GPU is.
    """

    def __init__(
        self,
        links: Callable[[], list[tuple[int, int]]] | None,
        placement: Placement | None,
        own_limits: Callable[[str], tuple[float | None, int | None]] = lambda task: (None, None),
        read: Read = read_here,
        gpu_of: Callable[[str], GpuUse] = lambda task: GpuUse(),
    ) -> None:
        self.gpu_of = gpu_of
        self.links, self.placement, self.own_limits = links, placement, own_limits
        self._read = read
        self._cpu: dict[str, tuple[int, float, float]] = {}
        """Process, time of its last reading, and processor seconds then, by task."""
        self._bytes: list[tuple[int, int]] | None = None
        self._busy_s: dict[str, float] = {}
        self._at_s: float | None = None

    def served(self, server: int, worked_s: float) -> None:
        """Keep a server's report of its work."""
        name = str(NodeId.server(server))
        self._busy_s[name] = self._busy_s.get(name, 0.0) + worked_s

    def sample(self, now: float, pids: Iterable[tuple[str, int]]) -> tuple[float, tuple[NodeUse, ...]]:
        """(seconds since the last sample, use of every task and host since then); the first only starts to count.

        A process whose task has left its host for good is not counted.
        """
        period_s = 0.0 if self._at_s is None else now - self._at_s
        self._at_s = now
        placed = [(name, pid, self._read(name, pid, now)) for name, pid in pids if self._is_placed(name)]
        tasks = {name: self._task(name, reading, pid, period_s) for name, pid, reading in placed}
        counted = None if self.links is None else self.links()
        hosts = self._hosts(period_s, tasks, counted)
        self._bytes, self._busy_s = counted, {}
        return period_s, (*tasks.values(), *hosts) if period_s > 0 else ()

    def _is_placed(self, name: str) -> bool:
        return self.placement is None or name in self.placement.host_of

    def _task(self, name: str, reading: Reading, pid: int, period_s: float) -> NodeUse:
        at_s, used_s, memory_bytes = reading
        before = self._cpu.get(name)
        cores = None
        if used_s is not None:
            self._cpu[name] = (pid, at_s, used_s)
            if before is not None and before[0] == pid and at_s > before[1]:
                cores = (used_s - before[2]) / (at_s - before[1])
        busy_s, gpu = self._busy_s.get(name), self.gpu_of(name)
        return NodeUse(
            node=name,
            cpu_cores=cores,
            memory_bytes=memory_bytes,
            busy_frac=None if busy_s is None or period_s <= 0 else busy_s / period_s,
            gpu_frac=gpu.busy_frac,
            gpu_memory_bytes=gpu.memory_bytes,
            **limits_of(None if self.placement is None else self.placement.host(name), *self.own_limits(name)),
        )

    def _hosts(
        self, period_s: float, tasks: dict[str, NodeUse], counted: list[tuple[int, int]] | None
    ) -> list[NodeUse]:
        found: list[NodeUse] = []
        for number, names in enumerate([] if self.placement is None else self.placement.tasks_on):
            own = [tasks[name] for name in names if name in tasks]
            out_rate, in_rate = None, None
            if counted is not None and self._bytes is not None and period_s > 0:
                out, into = (now - then for now, then in zip(counted[number], self._bytes[number], strict=True))
                out_rate, in_rate = out / period_s, into / period_s
            found.append(
                NodeUse(
                    node=str(NodeId("host", number)),
                    cpu_cores=sum(task.cpu_cores or 0.0 for task in own),
                    memory_bytes=sum(task.memory_bytes or 0 for task in own),
                    out_bytes_per_s=out_rate,
                    in_bytes_per_s=in_rate,
                    **limits_of(None if self.placement is None else self.placement.hosts.hosts[number]),
                )
            )
        return found
