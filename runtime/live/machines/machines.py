"""The places of a live job's tasks on the machines of its lab."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from injectors.plan import target_of
from runtime.cluster.hosts import Host, Hosts, Placement
from runtime.live.machines.endpoints import Endpoints
from runtime.live.machines.mechanisms import NOTHING
from runtime.live.machines.shared import SharedMachines
from runtime.live.transport.address import LOOPBACK
from runtime.live.transport.task_spec import Place

if TYPE_CHECKING:
    from runtime.live.machines.cgroups import Cgroup

PRIVATE = Path("/dev/shm")
"""Directory for sockets that ends with the run: see ``runtime.containment``."""
NO_GROUPS = "needs control groups, which are not available here (python run.py doctor says why)"


def build_machines(
    shared: SharedMachines, name: str, hosts: Hosts | None, tasks: list[str], cores_each: float, *, requests: bool
) -> tuple[HostMachines, str]:
    """Build the places of a job's tasks; if that fails, return this machine without hosts, and the reason."""
    from runtime.live.machines.cgroups import CgroupUnavailable, QuotaRefused

    try:
        return HostMachines(shared, name, hosts, tasks, cores_each, requests=requests), shared.obstacle
    except (OSError, CgroupUnavailable, QuotaRefused) as error:
        bare = SharedMachines(shared.run_id, None, NOTHING)
        return HostMachines(bare, name, None, tasks, cores_each), f"the emulated hosts could not be built: {error}"


class HostMachines:
    """The places of one job's tasks on the machines of its lab, built before its agent starts.

    ``name``: of the job, part of every name that another job could use, too; empty for a single job. ``requests``:
    allocated cores are a share of the host that is guaranteed, and no limit.
    """

    def __init__(
        self,
        shared: SharedMachines,
        name: str,
        hosts: Hosts | None,
        tasks: list[str],
        cores_each: float,
        *,
        requests: bool = False,
    ) -> None:
        self.shared, self.hosts, self.mechanisms, self.tasks = shared, hosts, shared.mechanisms, tasks
        self.prefix = f"{name}-" if name else ""
        self.cores_each, self.requests = cores_each, requests
        self.placement = None if hosts is None else Placement(hosts)
        self.groups: dict[str, Cgroup] = dict(shared.groups)
        """Control groups by target: ``host:0``, ``worker:1``."""
        self.network = shared.network
        self.endpoints = Endpoints(shared, tasks)
        self.addresses: dict[str, str] = {}
        """At which newcomers on other machines listen, by task."""
        self.allocated: dict[str, float] = {}
        """Cores of this machine that a strategy has allocated, by task."""
        self.left: dict[str, float] = {}
        """Cores that other jobs on its host leave to a task, where they leave it less than it could use."""
        self._left: dict[str, list[Cgroup]] = {}
        """Control groups from which tasks have moved, while these may have processes."""
        self._memory_kills: dict[str, int] = {}
        self._moves = 0
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            if self.mechanisms.cgroups:
                self._make_groups()
            if self.placement is not None:
                self.endpoints.open(self.placement.host_of)
            stack.pop_all()
        self.places = {task: self._place(task) for task in tasks}

    # ---- tasks that come and go --------------------------------------------------------------------------------------

    def admit(
        self,
        task: str,
        not_on: Collection[str] = (),
        *,
        cores: float | None = None,
        memory_bytes: int | None = None,
        to: int | None = None,
    ) -> None:
        """Make a place for a task that was not there at the start; raises ``ValueError`` if there is none.

        On hosts :meth:`runtime.cluster.hosts.Placement.add` chooses it; ``not_on``: names of hosts that are excluded;
        ``to``: the number of the host, where somebody else has chosen it.
        The limits are set later, and only have to be possible.
        """
        if cores is not None and self.mechanisms.allocations == "none":
            raise ValueError(f"cpu_cores={cores:g}: nothing limits the cores of a task here")
        if memory_bytes is not None and not self.mechanisms.memory:
            raise ValueError(f"memory_bytes={memory_bytes}: {NO_GROUPS}; strategy.limit_memory=false does without")
        if self.placement is not None:
            self.placement.add(task, not_on, cores, to)
        try:
            if self.placement is not None:
                self.endpoints.open({task: self.placement.host_of[task]})
            if self.mechanisms.cgroups:
                self.groups[task] = self._group_above(task).create(self._file_name(task))
        except OSError as error:
            self.dismiss(task)
            raise ValueError(f"{task}: {error}") from error
        self.tasks.append(task)
        self.places[task] = self._place(task)

    def dismiss(self, task: str) -> None:
        """A task has left for good; its group, which its process may still be leaving, goes with the job's."""
        self.allocated.pop(task, None)
        self.left.pop(task, None)
        if self.placement is not None and task in self.placement.host_of:
            self.placement.remove(task)
            self.endpoints.close_port(task)

    def dismiss_all_but(self, tasks: Collection[str]) -> None:
        """All other tasks have left for good, noticed or not: their shares of hosts are free again."""
        if self.placement is not None:
            for task in [task for task in self.placement.host_of if task not in tasks]:
                self.dismiss(task)

    def allocate(self, task: str, cores: float | None) -> None:
        """A task may use so many cores, which change what its :meth:`quota` is; raises ``ValueError``: it cannot."""
        if cores is not None and self.mechanisms.allocations == "none":
            raise ValueError(f"cpu_cores={cores:g}: nothing limits the cores of a task here")
        self.book(task, cores)
        if cores is None:
            self.allocated.pop(task, None)
        else:
            self.allocated[task] = cores

    def book(self, task: str, cores: float | None) -> None:
        """Reserve so many cores of its host for a task; raises ``ValueError``: the host has no more left."""
        if self.placement is not None and task in self.placement.host_of:  # else it has left meanwhile
            self.placement.allocate(task, cores)

    def killed_for_memory(self, task: str) -> bool:
        """Whether the kernel has killed a process of this task, since the last call, for the memory that it used."""
        if task not in self.groups or not self.mechanisms.memory:
            return False
        before, self._memory_kills[task] = self._memory_kills.get(task, 0), self.groups[task].memory_kills()
        return self._memory_kills[task] > before

    # ---- shares of processors ----------------------------------------------------------------------------------------

    def allotment(self, target: str) -> float:
        """Cores that an undisturbed target may use."""
        if target_of(target).form == "host":
            return self._host(target).cores or float(os.cpu_count() or 1)
        unlimited = self.unlimited(target)
        return min(unlimited, self._least(target) or unlimited)

    def unlimited(self, task: str) -> float:
        """Cores that a task may use without any limit of its own."""
        placed = self.placement is not None and task in self.placement.host_of  # a task that has left is not
        cores = self.placement.host(task).cores if self.placement is not None and placed else None
        return min(self.cores_each, cores or self.cores_each)

    def quota(self, target: str, level: float) -> float | None:
        """Cores that remain at a level; None if no limit is needed."""
        if level < 1.0:
            return level * self.allotment(target)
        return self._host(target).cores if target_of(target).form == "host" else self._least(target)

    def _least(self, task: str) -> float | None:
        """The smaller of a task's own limit and of what other jobs leave to it; None: neither limits it."""
        limits = (self.limit(task), self.left.get(task))
        return min((cores for cores in limits if cores is not None), default=None)

    def limit(self, task: str) -> float | None:
        """Cores that a task was given as a limit of its own."""
        return None if self.requests else self.allocated.get(task)

    def share_frac(self, task: str) -> float | None:
        """The part of its host that a task requests."""
        if not self.requests or task not in self.allocated or self.placement is None:
            return None
        cores = self.placement.host(task).cores
        assert cores is not None, "hosts without a number of cores are refused before the start"
        return self.allocated[task] / cores

    @property
    def promised_cores(self) -> float:
        """Sum of the quotas of all hosts."""
        return 0.0 if self.hosts is None else self.hosts.cores

    def tasks_on(self, target: str) -> list[str]:
        """The tasks of a target: itself, or those placed on a host."""
        if self.placement is None or target_of(target).form != "host":
            return [target]
        return list(self.placement.tasks_on[self._host(target).number])

    def host_of(self, task: str) -> str | None:
        """The name of the host that a task is on now; None without hosts, and for one that has left."""
        return None if self.placement is None else self.placement.name_of(task)

    def move(self, task: str, to: int | None = None, dead: Collection[int] = ()) -> Place | None:
        """Move a task that is restarted elsewhere to another host; None where none has its cores left.

        ``to``: the host's number, where somebody else has chosen it; None where that is the present one. ``dead``: of
        hosts on which nothing starts now.

        Its new control group has no limits yet. Raises ``OSError`` if it cannot be reached there.
        """
        if self.placement is None or task not in self.placement.host_of or not self.placement.move(task, to, dead):
            return None
        self.endpoints.open({task: self.placement.host_of[task]})
        if task in self.groups:
            self._moves += 1
            self._left.setdefault(task, []).append(self.groups[task])
            self.groups[task] = self._group_above(task).create(f"{self._file_name(task)}-{self._moves}")
        self.places[task] = self._place(task)
        self.leave_behind(task)
        return self.places[task]

    def leave_behind(self, task: str) -> None:
        """Remove the control groups that a task has left, but for those in which one of its processes still is."""
        left, self._left[task] = self._left.get(task, []), []
        for group in left:
            try:
                group.remove(within_s=0.0)
            except OSError:  # busy
                self._left[task].append(group)

    def _host(self, target: str) -> Host:
        assert self.hosts is not None
        return self.hosts.hosts[target_of(target).number]

    # ---- building ----------------------------------------------------------------------------------------------------

    def _make_groups(self) -> None:
        """Create a group for each task, within its host's group."""
        for task in self.tasks:
            self.groups[task] = self._group_above(task).create(self._file_name(task))

    def _group_above(self, task: str) -> Cgroup:
        return self.groups["" if self.placement is None else f"host:{self.placement.host_of[task]}"]

    # ---- addresses and places ----------------------------------------------------------------------------------

    @property
    def control_path(self) -> str:
        """Where the coordinator listens, outside the emulated network; empty without one."""
        return "" if self.network is None else self._private(f"{self.prefix}control")

    @property
    def namespace_fds(self) -> tuple[int, ...]:
        """Descriptors that the agent inherits."""
        return () if self.network is None else tuple(self.network.namespace_fds)

    def _place(self, task: str) -> Place:
        files = tuple(self.groups[task].process_files) if task in self.groups else ()
        if self.placement is None or self.network is None:
            return Place(cgroup_files=files, address=self.addresses.get(task, LOOPBACK))
        host = self.placement.host(task)
        return Place(
            host=f"host:{host.number}",
            namespace_fd=self.network.namespace_fds[host.number],
            cgroup_files=files,
            address=self.network.addresses[host.number],
            port=self.endpoints.port(task),
            known_as=self.endpoints.known_as(task),
            side_path=self._private(self._file_name(task)) if self.endpoints.delivers(task) else "",
            device=None if host.device is None else msgspec.structs.asdict(host.device),
        )

    def _file_name(self, task: str) -> str:
        return f"{self.prefix}{task.replace(':', '-')}"

    def _private(self, name: str) -> str:
        return str(PRIVATE / f"stragglab-{self.shared.run_id}-{name}")

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The relay goes, and the sockets' names; groups and network go with the lab."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.endpoints.close)
            for name in [f"{self.prefix}control", *map(self._file_name, self.tasks)]:
                Path(self._private(name)).unlink(missing_ok=True)
