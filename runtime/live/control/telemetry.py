"""Resource use of tasks and hosts, sampled periodically by the coordinator; strategies receive it as ``Observed``.

Read from the kernel in a few microseconds each: the processor clock of a process, its memory, the counters of the
hosts' links. No message to tasks is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from runtime.cluster.hosts import Placement, limits_of
from runtime.live.control.gpu_use import GpuUse
from strategies.protocol import NodeId, NodeUse

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CPU_CLOCK = 2
"""The kernel's number for the clock of a whole process, in the lower bits of a clock id."""


def cpu_s(pid: int) -> float | None:
    """Processor seconds of a process, all threads together; None when it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | CPU_CLOCK)
    except OSError:
        return None


def resident_bytes(pid: int) -> int | None:
    """Memory of a process in bytes, shared pages included; None when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return None


class Sampler:
    """Samples use; ``links`` reads (bytes out, bytes in) of every host of the ``placement``; None: no hosts.

    ``own_limits`` says of a task how many cores and how much memory (bytes) it was given as limits of its own, and
    ``gpu_of`` how busy its GPU is.
    """

    def __init__(
        self,
        links: Callable[[], list[tuple[int, int]]] | None,
        placement: Placement | None,
        own_limits: Callable[[str], tuple[float | None, int | None]] = lambda task: (None, None),
        gpu_of: Callable[[str], GpuUse] = lambda task: GpuUse(),
    ) -> None:
        self.gpu_of = gpu_of
        self.links, self.placement, self.own_limits = links, placement, own_limits
        self._cpu: dict[str, tuple[int, float]] = {}
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
        tasks = {name: self._task(name, pid, period_s) for name, pid in pids if self._is_placed(name)}
        counted = None if self.links is None else self.links()
        hosts = self._hosts(period_s, tasks, counted)
        self._bytes, self._busy_s = counted, {}
        return period_s, (*tasks.values(), *hosts) if period_s > 0 else ()

    def _is_placed(self, name: str) -> bool:
        return self.placement is None or name in self.placement.host_of

    def _task(self, name: str, pid: int, period_s: float) -> NodeUse:
        used_s = cpu_s(pid)
        before = self._cpu.get(name)
        cores = None
        if used_s is not None:
            self._cpu[name] = (pid, used_s)
            if before is not None and before[0] == pid and period_s > 0:
                cores = (used_s - before[1]) / period_s
        busy_s, gpu = self._busy_s.get(name), self.gpu_of(name)
        return NodeUse(
            node=name,
            cpu_cores=cores,
            memory_bytes=resident_bytes(pid),
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
