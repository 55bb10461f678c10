"""Where the tasks of a job listen to each other on emulated hosts: their ports, and the relay where there is latency.

Every host has its own network, so a port is free there unless another job of the lab, or this one, has it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

from runtime.live.machines.shared import SharedMachines
from runtime.live.transport.address import Address
from strategies.protocol import AGGREGATOR, NodeId

FIRST_PORT = 5000
"""Server 0 of a lab's first job (without servers: worker 0) listens on this port; others follow."""
FIRST_RELAY_PORT = 6000
"""The relay listens for them on these, in the same order."""


class Endpoints:
    """Ports by task. ``tasks``: of the start; if servers are among them, servers listen, else workers do."""

    def __init__(self, shared: SharedMachines, tasks: Iterable[str]) -> None:
        self.shared = shared
        roles = {NodeId.parse(task).role for task in tasks}
        self.role = "server" if "server" in roles else "worker"
        self._slots: dict[str, int] = {}
        """Numbers that no other task of the lab has, by task: offsets to the first ports."""
        self._relayed: dict[str, int] = {}
        """Likewise of the relay's ports: of the host that a task is on now."""
        self._relay: subprocess.Popen[bytes] | None = None

    def serves(self, task: str) -> bool:
        """Whether others connect to this task."""
        return self.delivers(task) or NodeId.parse(task).role == AGGREGATOR

    def delivers(self, task: str) -> bool:
        """Whether it has parameters for others, also for those outside the network."""
        return NodeId.parse(task).role == self.role

    def open(self, host_of: dict[str, int]) -> None:
        """Ports for these tasks, by the number of their host; again for one that has moved.

        A task keeps its port. The relay knows the host, so it has another port for a task that has moved. Raises
        ``OSError`` if the relay does not listen.
        """
        serving = {task: host for task, host in host_of.items() if self.serves(task)}
        slots = {task: self.shared.reserve_port() for task in serving}
        for task, slot in slots.items():
            self._slots.setdefault(task, slot)
        if slots and self.shared.network is not None and self.shared.mechanisms.latency == "relay":
            self._relay_to(serving, slots)
            self._relayed |= slots

    def close_port(self, task: str) -> None:
        """A task has left for good. Its numbers are not used again: its process may still be leaving."""
        self._slots.pop(task, None)
        self._relayed.pop(task, None)

    def port(self, task: str) -> int:
        """The port on which a task listens; 0 for one to which nobody connects."""
        return FIRST_PORT + self._slots[task] if task in self._slots else 0

    def known_as(self, task: str) -> Address | None:
        """The address at which tasks on other hosts reach it, if that is the relay's."""
        if task not in self._relayed:
            return None
        assert self.shared.network is not None
        port = FIRST_RELAY_PORT + self._relayed[task]
        return Address(transport="tcp", host=self.shared.network.lab_address, port=port)

    def _relay_to(self, serving: dict[str, int], slots: dict[str, int]) -> None:
        """Let the relay delay data between every host and these tasks."""
        from runtime.live.hosts.latency import add_routes, route_to, start_relay

        network, hosts = self.shared.network, self.shared.hosts
        assert network is not None
        assert hosts is not None
        latency_s = {network.addresses[host.number]: host.latency_s for host in hosts.hosts}
        routes = [
            route_to(FIRST_RELAY_PORT + slots[task], (network.addresses[host], self.port(task)), latency_s)
            for task, host in serving.items()
        ]
        if self._relay is None:
            self._relay = start_relay(network.lab_address, routes)
        else:
            add_routes(self._relay, network.lab_address, routes)

    def close(self) -> None:
        """End the relay, if there is one; nobody can be reached through it any more."""
        from runtime.live.hosts.latency import stop_relay

        if self._relay is not None:
            relay, self._relay = self._relay, None
            stop_relay(relay)
