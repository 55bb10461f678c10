"""Emulated hosts as a cluster's configuration describes them: their resources, and the tasks placed on them (pure).

A host has a share of this machine's processor time, a rate-limited link to a switch that is never the bottleneck, and
the tasks placed on it, which contend for both. The live runtime builds hosts from namespaces and quotas, the virtual
one models them; both use this description.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Annotated, Literal, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from runtime.cluster.device import DeviceProfile, parse_device
from runtime.config.checking import convert
from runtime.errors import ConfigError
from strategies.protocol import AggregatorsAt, NodeId

MAX_HOSTS = 250
"""Hosts use addresses 1 to 250 of one /24 network; the rest is reserved for the testbed itself."""
BITS_PER_MBIT = 1e6
MIN_CORES = 0.01
"""Cores of this machine per host: the kernel refuses less than 1 ms of a 100 ms quota period."""
USUAL_PERIOD_S = 0.01
"""Period of processor quotas unless another is set: short, so that a quota looks like a slower processor and not like
long pauses. Records say only others."""

Spread = Literal["spread", "pack"]
N = TypeVar("N", int, float)


class HostSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of one host; ``conf/cluster/hosts.yaml`` describes them."""

    cpu_cores: Annotated[float, Meta(gt=0, le=4096)] | None = None
    link_mbps: Annotated[float, Meta(ge=1, le=100_000)] | None = None
    latency_ms: Annotated[float, Meta(ge=0, le=10_000)] = 0.0
    fair_queues: bool = False
    memory_mb: Annotated[float, Meta(ge=64, le=1_000_000)] | None = None
    device: dict[str, float] | None = None
    gpus: Annotated[int, Meta(ge=0, le=1024)] | None = None


class HostsSpec(HostSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Defaults for all hosts, and the settings that concern all of them together."""

    count: Annotated[int, Meta(ge=1, le=MAX_HOSTS)]
    real_cores_per_core: Annotated[float, Meta(gt=0, le=1)] = 1.0
    quota_period_ms: Annotated[float, Meta(ge=1, le=100)] = USUAL_PERIOD_S * 1e3
    placement: Spread | list[list[str]] = "spread"
    """A policy by name, or explicitly: the tasks of the first host, of the second, ..."""
    overrides: dict[int, dict[str, bool | int | float | dict[str, float] | None]] | None = None
    """Fields of single hosts that differ from the rest, by host number."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One emulated machine, in units of this machine."""

    number: int
    cores: float | None
    """Quota in cores of this machine; None: no quota."""
    link_bytes_per_s: float | None
    """Rate of its uplink and, independently, of its downlink, on the wire (headers included); None: unlimited."""
    latency_s: float
    """One-way delay between this host and the switch."""
    memory_bytes: int | None
    device: DeviceProfile | None
    tasks: tuple[str, ...]
    """``worker:0``, ``server:1``; servers first."""
    gpus: int | None = None
    """One for every worker that it can hold; None: nobody counts them."""
    fair_queues: bool = False
    """Whether the queues of its link serve the other hosts in turn, instead of packets as they come."""
    quota_period_s: float = USUAL_PERIOD_S
    """Its tasks get their part of the processor again after so long, or longer if that would be too little."""


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """All hosts of a cluster; made by :func:`parse_hosts`."""

    hosts: tuple[Host, ...]
    host_of: dict[str, int]
    """Host number of every task."""

    @property
    def cores(self) -> float:
        """Sum of all quotas, in cores of this machine."""
        return sum(host.cores or 0.0 for host in self.hosts)

    @property
    def machines(self) -> tuple[Host, ...]:
        """The hosts without their tasks: equal for jobs that are to live on the same ones."""
        return tuple(msgspec.structs.replace(host, tasks=()) for host in self.hosts)

    @property
    def links(self) -> dict[str, float]:
        """Bytes per second on the wire of every host whose link is limited, each way, by name."""
        return {f"host:{host.number}": host.link_bytes_per_s for host in self.hosts if host.link_bytes_per_s}

    def describe(self) -> list[dict[str, object]]:
        """The hosts as plain data, for ``meta.json``; without what came later to records, where it is not used."""
        later = {"gpus": None, "fair_queues": False, "quota_period_s": USUAL_PERIOD_S}
        return [
            {name: value for name, value in msgspec.to_builtins(host).items() if value != later.get(name, ...)}
            for host in self.hosts
        ]

    def with_aggregators(self, count: int, at: AggregatorsAt) -> Hosts:
        """The same hosts with so many aggregators on them, placed by :func:`aggregator_hosts`."""
        places = aggregator_hosts(self, count, at)
        return self.with_tasks(self.host_of | {task: NodeId.parse(host).number for task, host in places.items()})

    def with_tasks(self, host_of: Mapping[str, int]) -> Hosts:
        """The same machines with these tasks, each on the host of this number."""
        held: list[list[str]] = [[] for _ in self.hosts]
        for task, number in host_of.items():
            held[number].append(task)
        hosts = (msgspec.structs.replace(host, tasks=tuple(held[host.number])) for host in self.hosts)
        return Hosts(hosts=tuple(hosts), host_of=dict(host_of))


def aggregator_hosts(hosts: Hosts, count: int, at: AggregatorsAt) -> dict[str, str]:
    """The host of each of ``count`` aggregators, ``at`` workers' or at hosts of their own.

    ``workers``: the host of most workers first (ties: the lower number), in turns if hosts are fewer than aggregators.
    ``free``: a host without tasks if there is any, else a worker's; not a server's, whose link they would not relieve.
    Raises ``ConfigError`` if there are too few such hosts.
    """
    if at == "workers":
        holding = Counter(number for task, number in hosts.host_of.items() if NodeId.parse(task).role == "worker")
        near = sorted(holding, key=lambda number: (-holding[number], number))
        return {
            str(NodeId.aggregator(number)): str(NodeId("host", near[number % len(near)])) for number in range(count)
        }
    serving = {number for task, number in hosts.host_of.items() if NodeId.parse(task).role == "server"}
    others = sorted((host for host in hosts.hosts if host.number not in serving), key=lambda host: len(host.tasks) > 0)
    if count > len(others):
        raise ConfigError(
            f"strategy: has aggregators ({count}; num_aggregators or tree_fanout), each on a host of its own without a "
            f"server, and only {len(others)} of {len(hosts.hosts)} hosts have none; use fewer, or more hosts"
        )
    return {str(NodeId.aggregator(number)): f"host:{host.number}" for number, host in enumerate(others[:count])}


class Limits(TypedDict):
    """Fields of :class:`strategies.protocol.NodeUse`; None: unlimited."""

    limit_cores: float | None
    limit_bytes_per_s: float | None
    memory_limit_bytes: int | None


def limits_of(host: Host | None, cores: float | None = None, memory_bytes: int | None = None) -> Limits:
    """Return what a host and its tasks may use together; without hosts nothing is limited.

    A task's ``cores`` and ``memory_bytes`` are its own limits (None: it has none), within its host's limits.
    """
    if host is None:
        return {"limit_cores": cores, "limit_bytes_per_s": None, "memory_limit_bytes": memory_bytes}
    return {
        "limit_cores": _least(cores, host.cores),
        "limit_bytes_per_s": host.link_bytes_per_s,
        "memory_limit_bytes": _least(memory_bytes, host.memory_bytes),
    }


def _least(own: N | None, of_host: N | None) -> N | None:
    """The smaller limit; None: there is none."""
    if own is None or of_host is None:
        return of_host if own is None else own
    return min(own, of_host)


class Placement:
    """The current host of every task: as configured, until a strategy restarts, launches or retires tasks.

    ``tasks_on[n]`` are the tasks of host n, ``cores`` those that tasks were given, where they were given any.
    """

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.host_of = dict(hosts.host_of)
        self.tasks_on = [list(host.tasks) for host in hosts.hosts]
        self.cores: dict[str, float] = {}

    def host(self, task: str) -> Host:
        """The host that a task is on now."""
        return self.hosts.hosts[self.host_of[task]]

    def name_of(self, task: str) -> str | None:
        """The name of that host (``host:2``); None for a task that was never placed."""
        return str(NodeId("host", self.host_of[task])) if task in self.host_of else None

    def add(self, task: str, not_on: Collection[str] = (), cores: float | None = None, to: int | None = None) -> None:
        """Place a newcomer; raises ValueError if no host takes it.

        Without ``cores`` it goes to the least loaded host (the first of equals), else to the one with most cores left,
        where it takes so many. ``not_on``: names of hosts that are excluded. ``to``: the number of the host, where
        somebody else has chosen it.
        """
        if to is not None:
            if cores is not None:
                self.cores[task] = cores
            self._put(task, to)
            return
        numbers = [host.number for host in self.hosts.hosts if str(NodeId("host", host.number)) not in not_on]
        if not numbers:
            raise ValueError("not_on: excludes every host")
        if cores is not None:
            roomy = [number for number in numbers if self.cores_left(number) >= cores]
            if not roomy:
                most = max(map(self.cores_left, numbers))
                raise ValueError(f"cpu_cores={cores:g}: no host has so many left (the most is {most:g})")
            numbers = sorted(roomy, key=self.cores_left, reverse=True)
            numbers = [number for number in numbers if self.cores_left(number) == self.cores_left(numbers[0])]
            self.cores[task] = cores
        self._put(task, min(numbers, key=self._load))

    def remove(self, task: str) -> None:
        """A task has left for good."""
        self.tasks_on[self.host_of.pop(task)].remove(task)
        self.cores.pop(task, None)

    def allocate(self, task: str, cores: float | None) -> None:
        """Change what a task takes of its host (None: nothing in particular); raises ValueError: no room."""
        number = self.host_of[task]
        if cores is None:
            self.cores.pop(task, None)
            return
        if (left := round(self.cores_left(number) + self.cores.get(task, 0.0), 9)) < cores:
            raise ValueError(f"cpu_cores={cores:g}: {NodeId('host', number)} has only {left:g} left")
        self.cores[task] = cores

    def cores_left(self, number: int) -> float:
        """Cores of a host that no task was given; infinite without a quota."""
        own = self.hosts.hosts[number].cores
        taken = math.fsum(self.cores.get(task, 0.0) for task in self.tasks_on[number])
        return math.inf if own is None else round(own - taken, 9)

    def move(self, task: str, to: int | None = None, dead: Collection[int] = ()) -> bool:
        """Move a task to the least loaded other host that has its cores left (the first of equals); False: it stays.

        ``to``: the number of the host, where somebody else has chosen it. ``dead``: numbers of hosts where nothing
        starts now, of which one is chosen only if there is no other.
        """
        old, cores = self.host_of[task], self.cores.get(task, 0.0)
        roomy = [number for number in range(len(self.tasks_on)) if self.cores_left(number) >= cores]
        others = [number for number in (roomy if to is None else [to]) if number != old]
        if not others:
            return False
        self.tasks_on[old].remove(task)
        self._put(task, min([number for number in others if number not in dead] or others, key=self._load))
        return True

    def _load(self, number: int) -> tuple[int, int]:
        return len(self.tasks_on[number]), number

    def _put(self, task: str, number: int) -> None:
        self.tasks_on[number].append(task)
        self.host_of[task] = number


def parse_hosts(fields: Mapping[str, object], num_workers: int, num_servers: int, path: str = "cluster.hosts") -> Hosts:
    """Build the hosts from ``fields``; raises :class:`ConfigError` naming the setting and its cure."""
    spec: HostsSpec = convert(dict(fields), HostsSpec, path)
    overrides = spec.overrides or {}
    for number in overrides:
        if not 0 <= number < spec.count:
            raise ConfigError(f"{path}.overrides.{number}: there is no such host; they are 0 to {spec.count - 1}")
    tasks = [str(NodeId.server(number)) for number in range(num_servers)]
    tasks += [str(NodeId.worker(number)) for number in range(num_workers)]
    own = {name: getattr(spec, name) for name in HostSpec.__struct_fields__}
    each: list[HostSpec] = [
        convert({**own, **overrides.get(number, {})}, HostSpec, f"{path}.overrides.{number}")
        for number in range(spec.count)
    ]
    if any(one.gpus is not None for one in each):
        host_of = _place_by_gpus(spec, [one.gpus or 0 for one in each], tasks, num_servers, path)
    else:
        host_of = _place(spec, tasks, num_servers, path)
    hosts = []
    for number, one in enumerate(each):
        held = tuple(task for task in tasks if host_of[task] == number)
        hosts.append(_host(number, one, spec, held, path))
    return Hosts(hosts=tuple(hosts), host_of=host_of)


def parse_machines(fields: Mapping[str, object], path: str = "cluster.hosts") -> Hosts:
    """The hosts without any task, whatever their ``placement``; raises :class:`ConfigError`."""
    return parse_hosts({**fields, "placement": "spread"}, 0, 0, path)


def _host(number: int, spec: HostSpec, shared: HostsSpec, tasks: tuple[str, ...], path: str) -> Host:
    scale = shared.real_cores_per_core
    cores = None if spec.cpu_cores is None else spec.cpu_cores * scale
    if cores is not None and cores < MIN_CORES:
        raise ConfigError(
            f"{path}.real_cores_per_core={scale:g}: makes {cores:g} cores of this machine for host {number}, less than "
            f"the {MIN_CORES:g} that a quota can hold; use a larger one, or more {path}.cpu_cores"
        )
    try:
        own = "device" in (shared.overrides or {}).get(number, {})
        device = parse_device(spec.device, f"{path}.overrides.{number}.device" if own else f"{path}.device")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return Host(
        number=number,
        cores=cores,
        link_bytes_per_s=None if spec.link_mbps is None else spec.link_mbps * BITS_PER_MBIT / 8,
        latency_s=spec.latency_ms / 1e3,
        memory_bytes=None if spec.memory_mb is None else int(spec.memory_mb * 2**20),
        device=device,
        tasks=tasks,
        gpus=spec.gpus,
        fair_queues=spec.fair_queues,
        quota_period_s=shared.quota_period_ms / 1e3,
    )


def _place_by_gpus(spec: HostsSpec, gpus: list[int], tasks: list[str], num_servers: int, path: str) -> dict[str, int]:
    """As :func:`_place`, but no host holds more workers than it has GPUs; servers need none."""
    servers, workers = tasks[:num_servers], tasks[num_servers:]
    if len(workers) > sum(gpus):
        raise ConfigError(
            f"cluster.num_workers={len(workers)}: every worker needs a GPU, and the {len(gpus)} hosts have "
            f"{sum(gpus)}; use fewer, or more {path}.gpus"
        )
    if isinstance(spec.placement, list):
        host_of = _explicit(spec.placement, spec.count, tasks, path)
        for number, has in enumerate(gpus):
            if (held := sum(host_of[worker] == number for worker in workers)) > has:
                raise ConfigError(f"{path}.placement: puts {held} workers on host {number}, which has {has} GPUs")
        return host_of
    slots = [(turn, number) for number, has in enumerate(gpus) for turn in range(has)]
    if spec.placement == "spread":
        slots.sort()
    return {
        **{task: spec.count - 1 - index % spec.count for index, task in enumerate(servers)},
        **{task: number for task, (_, number) in zip(workers, slots, strict=False)},
    }


def _place(spec: HostsSpec, tasks: list[str], num_servers: int, path: str) -> dict[str, int]:
    """Host number of every task.

    ``spread``: workers from the first host upwards, servers from the last one downwards, round-robin, so that they
    share hosts as late as possible. ``pack``: on as few hosts as possible, filled one after another. Otherwise explicit
    lists.
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
        raise ConfigError(f"{path}.placement: {missing[0]} is not placed; name its host, or use placement=spread")
    return host_of
