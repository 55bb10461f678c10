"""Emulated hosts as a cluster's configuration describes them: how strong each is, and which tasks it holds (pure).

A host has a share of this machine's processor time, a link of a rate to a switch that is never the bottleneck, and the
tasks placed on it; these contend for both. The live runtime builds hosts of namespaces and quotas, the virtual one
models them: both from this description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from runtime.cluster.device import DeviceProfile, parse_device
from runtime.config.checking import convert
from runtime.errors import ConfigError

MAX_HOSTS = 250
"""Addresses 1 to 250 of one /24 network; the rest of it is the laboratory's."""
BITS_PER_MBIT = 1e6
MIN_CORES = 0.01
"""Of this machine per host: less than 1 ms of a 100 ms quota period is refused by the kernel."""

Spread = Literal["spread", "pack"]


class HostSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of one host; ``conf/cluster/hosts.yaml`` describes them."""

    cpu_cores: Annotated[float, Meta(gt=0, le=4096)] | None = None
    link_mbps: Annotated[float, Meta(ge=1, le=100_000)] | None = None
    latency_ms: Annotated[float, Meta(ge=0, le=10_000)] = 0.0
    memory_mb: Annotated[float, Meta(ge=64, le=1_000_000)] | None = None
    device: dict[str, float] | None = None


class HostsSpec(HostSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of all hosts, and what only all together have."""

    count: Annotated[int, Meta(ge=1, le=MAX_HOSTS)]
    real_cores_per_core: Annotated[float, Meta(gt=0, le=1)] = 1.0
    placement: Spread | list[list[str]] = "spread"
    """By name: the tasks of the first host, of the second, ..."""
    overrides: dict[int, dict[str, float | dict[str, float] | None]] | None = None
    """Fields of single hosts that differ from the rest, by number."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One emulated machine, in this machine's units."""

    number: int
    cores: float | None
    """Of this machine; None: as much as there is."""
    link_bytes_per_s: float | None
    """Of its uplink and, independently, its downlink, on the wire (headers included); None: unlimited."""
    latency_s: float
    """One way, between this host and the switch."""
    memory_bytes: int | None
    device: DeviceProfile | None
    tasks: tuple[str, ...]
    """``worker:0``, ``server:1``; servers first."""


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """All hosts of a cluster; :func:`parse_hosts` makes them."""

    hosts: tuple[Host, ...]
    host_of: dict[str, int]
    """Number of the host of every task."""

    @property
    def cores(self) -> float:
        """Sum of all quotas, in cores of this machine."""
        return sum(host.cores or 0.0 for host in self.hosts)

    def describe(self) -> list[dict[str, object]]:
        """For ``meta.json``."""
        return [msgspec.to_builtins(host) for host in self.hosts]


class Placement:
    """Where tasks live now: as the hosts were described, until a strategy restarts one elsewhere.

    ``tasks_on[n]`` are the tasks of host n.
    """

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.host_of = dict(hosts.host_of)
        self.tasks_on = [list(host.tasks) for host in hosts.hosts]

    def host(self, task: str) -> Host:
        """The one that a task lives on."""
        return self.hosts.hosts[self.host_of[task]]

    def move(self, task: str) -> bool:
        """To another host, of those with the fewest tasks the first; False where there is no other."""
        old = self.host_of[task]
        others = [number for number in range(len(self.tasks_on)) if number != old]
        if not others:
            return False
        new = min(others, key=lambda number: (len(self.tasks_on[number]), number))
        self.tasks_on[old].remove(task)
        self.tasks_on[new].append(task)
        self.host_of[task] = new
        return True


def parse_hosts(fields: Mapping[str, object], num_workers: int, num_servers: int, path: str = "cluster.hosts") -> Hosts:
    """What ``fields`` describe for so many tasks; raises :class:`ConfigError` naming the setting and its cure."""
    spec: HostsSpec = convert(dict(fields), HostsSpec, path)
    overrides = spec.overrides or {}
    for number in overrides:
        if not 0 <= number < spec.count:
            raise ConfigError(f"{path}.overrides.{number}: there is no such host; they are 0 to {spec.count - 1}")
    tasks = [f"server:{server}" for server in range(num_servers)]
    tasks += [f"worker:{worker}" for worker in range(num_workers)]
    host_of = _place(spec, tasks, num_servers, path)
    own = {name: getattr(spec, name) for name in HostSpec.__struct_fields__}
    hosts = []
    for number in range(spec.count):
        one: HostSpec = convert({**own, **overrides.get(number, {})}, HostSpec, f"{path}.overrides.{number}")
        held = tuple(task for task in tasks if host_of[task] == number)
        hosts.append(_host(number, one, spec.real_cores_per_core, held, path))
    return Hosts(hosts=tuple(hosts), host_of=host_of)


def _host(number: int, spec: HostSpec, scale: float, tasks: tuple[str, ...], path: str) -> Host:
    cores = None if spec.cpu_cores is None else spec.cpu_cores * scale
    if cores is not None and cores < MIN_CORES:
        raise ConfigError(
            f"{path}.real_cores_per_core={scale:g}: makes {cores:g} cores of this machine for host {number}, less than "
            f"the {MIN_CORES:g} that a quota can hold; use a larger one, or more {path}.cpu_cores"
        )
    try:
        device = parse_device(spec.device)
    except ValueError as error:
        raise ConfigError(f"{path}.{error}") from None
    return Host(
        number=number,
        cores=cores,
        link_bytes_per_s=None if spec.link_mbps is None else spec.link_mbps * BITS_PER_MBIT / 8,
        latency_s=spec.latency_ms / 1e3,
        memory_bytes=None if spec.memory_mb is None else int(spec.memory_mb * 2**20),
        device=device,
        tasks=tasks,
    )


def _place(spec: HostsSpec, tasks: list[str], num_servers: int, path: str) -> dict[str, int]:
    """Number of the host of every task.

    ``spread``: workers from the first host on, servers from the last one back, round and round, so that they meet as
    late as possible. ``pack``: as few tasks apart as possible, host after host. Otherwise as the lists say.
    """
    if isinstance(spec.placement, list):
        return _explicit(spec.placement, spec.count, tasks, path)
    if spec.placement == "pack":
        each = -(-len(tasks) // spec.count)
        return {task: index // each for index, task in enumerate(tasks)}
    servers, workers = tasks[:num_servers], tasks[num_servers:]
    return {
        **{task: spec.count - 1 - index % spec.count for index, task in enumerate(servers)},
        **{task: index % spec.count for index, task in enumerate(workers)},
    }


def _explicit(placement: list[list[str]], count: int, tasks: list[str], path: str) -> dict[str, int]:
    if len(placement) > count:
        raise ConfigError(f"{path}.placement: lists {len(placement)} hosts, and there are {count}; use a larger count")
    host_of: dict[str, int] = {}
    for number, names in enumerate(placement):
        for task in names:
            if task not in tasks:
                raise ConfigError(f"{path}.placement: there is no task {task}; they are {', '.join(tasks)}")
            if task in host_of:
                raise ConfigError(f"{path}.placement: {task} is on host {host_of[task]} and on host {number}")
            host_of[task] = number
    if missing := [task for task in tasks if task not in host_of]:
        raise ConfigError(f"{path}.placement: {missing[0]} is placed nowhere; name its host, or use placement=spread")
    return host_of
