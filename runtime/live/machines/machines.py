"""The machines of a live run: emulated hosts, control groups, and where each task lives among them."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from runtime.cluster.hosts import Host, Hosts, Placement
from runtime.containment import Isolation, inside
from runtime.live.machines.mechanisms import NOTHING, Mechanisms
from runtime.live.transport.address import Address
from runtime.live.transport.task_spec import Place

if TYPE_CHECKING:
    from runtime.live.hosts.network import Network
    from runtime.live.machines.cgroups import Cgroup

SERVER_PORT = 5000
"""Server j (without servers: worker j) listens on this port plus j: every host has a network to itself."""
RELAY_PORT = 6000
"""Likewise, of the relay for server j."""
PRIVATE = Path("/dev/shm")
"""Ends with the run: see ``runtime.containment``."""
RELAY_EXIT_S = 2.0


def build_machines(
    hosts: Hosts | None, mechanisms: Mechanisms, tasks: list[str], cores_each: float
) -> tuple[HostMachines, str]:
    """The machines and, if these could not be built, why; then they are those of a run without any."""
    from runtime.live.machines.cgroups import CgroupUnavailable, QuotaRefused

    run_id = secrets.token_hex(8)
    try:
        return HostMachines(run_id, hosts, mechanisms, tasks, cores_each), ""
    except (OSError, CgroupUnavailable, QuotaRefused) as error:
        return HostMachines(run_id, None, NOTHING, tasks, cores_each), f"the emulated hosts could not be built: {error}"


class HostMachines:
    """Built before the agent starts. ``run_id``: 16 random hex digits, in every name that others could see."""

    def __init__(
        self, run_id: str, hosts: Hosts | None, mechanisms: Mechanisms, tasks: list[str], cores_each: float
    ) -> None:
        self.run_id, self.hosts, self.mechanisms, self.tasks = run_id, hosts, mechanisms, tasks
        self.cores_each = cores_each
        self.placement = None if hosts is None else Placement(hosts)
        self.groups: dict[str, Cgroup] = {}
        """By target: ``host:0``, ``worker:1``."""
        self.network: Network | None = None
        self._moves = 0
        self._relay: subprocess.Popen[bytes] | None = None
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            if mechanisms.cgroups:
                self._make_groups()
            if mechanisms.network:
                self._make_network()
            stack.pop_all()
        self.places = {task: self._place(task) for task in tasks}

    # ---- who may use how much ----------------------------------------------------------------------------------------

    def allotment(self, target: str) -> float:
        """Cores that a target may use when nothing disturbs it."""
        if target.startswith("host:"):
            return self._host(target).cores or float(os.cpu_count() or 1)
        cores = None if self.placement is None else self.placement.host(target).cores
        return min(self.cores_each, cores or self.cores_each)

    def quota(self, target: str, level: float) -> float | None:
        """Cores that are left of it at a level; None when nothing needs to keep it to that."""
        if level < 1.0:
            return level * self.allotment(target)
        return self._host(target).cores if target.startswith("host:") else None

    @property
    def promised_cores(self) -> float:
        """Sum of the quotas of all hosts."""
        return 0.0 if self.hosts is None else self.hosts.cores

    def tasks_on(self, target: str) -> list[str]:
        """The tasks that a target stands for: itself, or those placed on a host."""
        if self.placement is None or not target.startswith("host:"):
            return [target]
        return list(self.placement.tasks_on[self._host(target).number])

    def move(self, task: str) -> Place | None:
        """Another host for a task that is to be restarted elsewhere; None where there is none.

        A server whose messages a relay holds up stays: its relay knows where it listens.
        """
        if self.placement is None or self.places[task].known_as is not None or not self.placement.move(task):
            return None
        if task in self.groups:
            self._moves += 1
            name = f"{task.replace(':', '-')}-{self._moves}"
            self.groups[task] = self.groups[f"host:{self.placement.host_of[task]}"].create(name)
        self.places[task] = self._place(task)
        return self.places[task]

    def _host(self, target: str) -> Host:
        assert self.hosts is not None
        return self.hosts.hosts[int(target.partition(":")[2])]

    # ---- building ----------------------------------------------------------------------------------------------------

    def _make_groups(self) -> None:
        """A group for each task, within one for each host, within one for the run."""
        from runtime.live.machines.cgroups import run_group
        from runtime.live.machines.janitor_process import register

        root = run_group(self.run_id, cpu=self.mechanisms.cpu_groups, memory=self.mechanisms.memory, register=register)
        self.groups[""] = root
        for host in self.hosts.hosts if self.hosts is not None else ():
            group = root.create(f"host-{host.number}")
            self.groups[f"host:{host.number}"] = group
            if host.cores is not None and self.mechanisms.host_quotas == "cgroup":
                group.set_cores(host.cores)
            if host.memory_bytes is not None:
                group.set_memory_bytes(host.memory_bytes)
        for task in self.tasks:
            above = root if self.placement is None else self.groups[f"host:{self.placement.host_of[task]}"]
            self.groups[task] = above.create(task.replace(":", "-"))

    def _make_network(self) -> None:
        from runtime.live.hosts.network import Network
        from runtime.live.hosts.selftest import check_links

        assert self.hosts is not None
        if inside() < Isolation.NETWORK:
            raise RuntimeError("emulated hosts need a network of their own: call runtime.containment.contain first")
        self.network = Network(self.run_id, [(host.number, host.link_bytes_per_s) for host in self.hosts.hosts])
        check_links(self.network)
        if self.mechanisms.latency == "netem":
            for host in self.hosts.hosts:
                self.network.set_latency(host.number, host.latency_s)
        elif self.mechanisms.latency == "relay":
            self._start_relay()

    def _start_relay(self) -> None:
        """Between every worker and every server on another host, a wait."""
        from runtime.live.hosts.latency import route_to, start_relay

        assert self.hosts is not None
        assert self.network is not None
        addresses = self.network.addresses
        latency_s = {addresses[host.number]: host.latency_s for host in self.hosts.hosts}
        routes = [
            route_to(RELAY_PORT + number, (addresses[self.hosts.host_of[task]], SERVER_PORT + number), latency_s)
            for number, task in enumerate(self.serving)
        ]
        self._relay = start_relay(self.network.lab_address, routes)

    @property
    def serving(self) -> list[str]:
        """Tasks that others call: the servers or, without any, the workers."""
        return [task for task in self.tasks if task.startswith("server:")] or self.tasks

    def _relayed(self, server: int) -> Address:
        assert self.network is not None
        return Address(transport="tcp", host=self.network.lab_address, port=RELAY_PORT + server)

    # ---- what the run needs to know ----------------------------------------------------------------------------------

    @property
    def control_path(self) -> str:
        """Where the coordinator listens, beside the emulated network; empty without one."""
        return "" if self.network is None else self._private("control")

    @property
    def namespace_fds(self) -> tuple[int, ...]:
        """Descriptors that the agent inherits."""
        return () if self.network is None else tuple(self.network.namespace_fds)

    def _place(self, task: str) -> Place:
        files = tuple(self.groups[task].process_files) if task in self.groups else ()
        if self.placement is None or self.network is None:
            return Place(cgroup_files=files)
        host = self.placement.host(task)
        number = task.partition(":")[2]
        serves = task in self.serving
        return Place(
            host=f"host:{host.number}",
            namespace_fd=self.network.namespace_fds[host.number],
            cgroup_files=files,
            address=self.network.addresses[host.number],
            port=SERVER_PORT + int(number) if serves else 0,
            known_as=self._relayed(int(number)) if serves and self.mechanisms.latency == "relay" else None,
            side_path=self._private(task.replace(":", "-")) if serves else "",
            device=None if host.device is None else msgspec.structs.asdict(host.device),
        )

    def _private(self, name: str) -> str:
        return str(PRIVATE / f"stragglab-{self.run_id}-{name}")

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Everything goes: relay, network, groups (whose processes have ended), sockets' names."""
        with contextlib.ExitStack() as stack:
            if self.groups:
                stack.callback(self.groups[""].remove)
            if self.network is not None:
                stack.callback(self.network.close)
            stack.callback(self._stop_relay)
            for task in ["control", *self.tasks]:
                Path(self._private(task.replace(":", "-"))).unlink(missing_ok=True)

    def _stop_relay(self) -> None:
        if self._relay is None:
            return
        assert self._relay.stdin is not None
        self._relay.stdin.close()
        try:
            self._relay.wait(RELAY_EXIT_S)
        except subprocess.TimeoutExpired:
            self._relay.kill()
            self._relay.wait(RELAY_EXIT_S)
        self._relay = None
