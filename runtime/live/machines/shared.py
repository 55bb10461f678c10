"""The machines of a live lab: emulated hosts with their control groups and links, which its jobs share."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

from runtime.cluster.hosts import Hosts
from runtime.containment import Isolation, inside
from runtime.live.machines.mechanisms import NOTHING, TICKS_DEMANDED, Mechanisms

if TYPE_CHECKING:
    from runtime.live.hosts.network import Network
    from runtime.live.machines.cgroups import Cgroup
    from runtime.live.machines.ticks import Ticks


def build_shared(hosts: Hosts | None, mechanisms: Mechanisms) -> SharedMachines:
    """The machines; if they could not be built, bare ones without hosts, whose ``obstacle`` says why."""
    from runtime.live.machines.cgroups import CgroupUnavailable, QuotaRefused

    run_id = secrets.token_hex(8)
    try:
        return SharedMachines(run_id, hosts, mechanisms)
    except TicksRefused as error:
        obstacle = str(error)
    except (OSError, CgroupUnavailable, QuotaRefused) as error:
        obstacle = f"the emulated hosts could not be built: {error}"
    bare = SharedMachines(run_id, None, NOTHING)
    bare.obstacle = obstacle
    return bare


class TicksRefused(Exception):
    """The threads that the user demands are not available."""


class SharedMachines:
    """Built before the first job. ``run_id``: 16 random hex digits, in every name that others could see."""

    def __init__(self, run_id: str, hosts: Hosts | None, mechanisms: Mechanisms) -> None:
        self.run_id, self.hosts, self.mechanisms = run_id, hosts, mechanisms
        self.obstacle = ""
        self.no_ticks = ""
        """Why no thread makes the kernel look at quotas, though one was to; empty otherwise."""
        self.groups: dict[str, Cgroup] = {}
        """By target: ``host:0``; the empty one is the lab's."""
        self.network: Network | None = None
        self._ports = 0
        self._ticks: Ticks | None = None
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            if mechanisms.cgroups:
                self._make_groups()
            if mechanisms.network:
                self._make_network()
            if mechanisms.ticks:
                self._start_ticks()
            stack.pop_all()

    def reserve_port(self) -> int:
        """The next number that no other task of any job gets: 0, 1, 2, ..."""
        first, self._ports = self._ports, self._ports + 1
        return first

    def _make_groups(self) -> None:
        """A group for each host, within one for the lab."""
        from runtime.live.machines.cgroups import run_group
        from runtime.live.machines.janitor_process import register

        root = run_group(self.run_id, cpu=self.mechanisms.cpu_groups, memory=self.mechanisms.memory, register=register)
        self.groups[""] = root
        for host in self.hosts.hosts if self.hosts is not None else ():
            group = root.create(f"host-{host.number}")
            group.period_us = round(host.quota_period_s * 1e6)
            self.groups[f"host:{host.number}"] = group
            if host.cores is not None and self.mechanisms.host_quotas == "cgroup":
                group.set_cores(host.cores)
            if host.memory_bytes is not None:
                group.set_memory_bytes(host.memory_bytes)

    def _make_network(self) -> None:
        from runtime.live.hosts.network import Network
        from runtime.live.hosts.selftest import check_links

        assert self.hosts is not None
        if inside() < Isolation.NETWORK:
            raise RuntimeError("emulated hosts need a network of their own: call runtime.containment.contain first")
        fair = [host.number for host in self.hosts.hosts if host.fair_queues]
        self.network = Network(self.run_id, [(host.number, host.link_bytes_per_s) for host in self.hosts.hosts], fair)
        check_links(self.network)
        if self.mechanisms.latency == "netem":
            for host in self.hosts.hosts:
                self.network.set_latency(host.number, host.latency_s)

    def _start_ticks(self) -> None:
        from runtime.live.machines.ticks import Ticks

        try:
            self._ticks = Ticks()
        except OSError as error:
            if self.mechanisms.ticks_demanded:
                raise TicksRefused(
                    f"{TICKS_DEMANDED}: {error}; use runtime.ticks=auto, or runtime.ticks=false"
                ) from error
            self.no_ticks = str(error)

    def close(self) -> None:
        """Everything goes: the network, then the groups, whose processes have ended."""
        with contextlib.ExitStack() as stack:
            if self.groups:
                stack.callback(self.groups[""].remove)
            if self.network is not None:
                stack.callback(self.network.close)
            if self._ticks is not None:
                stack.callback(self._ticks.close)
