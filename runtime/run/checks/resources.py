"""The least resources that a job needs, compared with the machine's, before anything starts.

The estimates are lower bounds: a job that is refused could not have run, and one that is not may still need more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from runtime.config.checking import show
from runtime.config.parse import Config
from runtime.errors import ConfigError
from runtime.live.transport.auxiliaries import auxiliaries_of
from strategies.protocol import Strategy

FLOAT_BYTES = 4
TASK_BYTES = 4_000_000
"""Unique memory of a task with a small model: 10 MB with PyTorch (2.13), 4.4 MB with numpy."""
COORDINATORS = 2
"""The run itself and the agent; each has one thread."""
PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class Demand(msgspec.Struct, frozen=True):
    """Lower bounds of the resources that a job needs."""

    memory_bytes: int
    processes: int
    """Number of processes with their threads, each of which the kernel counts."""
    descriptors: int
    """Open files of the process with the most."""


class Limit(msgspec.Struct, frozen=True):
    """A limit of a resource; ``name`` is for messages."""

    name: str
    value: int


class Room(msgspec.Struct, frozen=True):
    """The machine's free resources; unknown limits are missing."""

    memory_bytes: int | None = None
    processes: tuple[Limit, ...] = ()
    descriptors: Limit | None = None


def demand_of(
    config: Config, task: object, *, real_time: bool, computes: bool, scores: bool, aggregators: int = 0
) -> Demand:
    """The resources that a job needs. A task of unknown size counts as small."""
    workers, servers = config.num_workers, config.topology.num_servers
    weights = int(getattr(task, "num_weights", 0) or getattr(task, "num_parameters", 0) or 0) if computes else 0
    if not real_time:
        # the parameters, one gradient, and the initial values that they were copied from
        return Demand(3 * FLOAT_BYTES * weights, 1, 0)
    computing = workers + len(auxiliaries_of(scores=scores))
    threads = int(config.backend.get("num_threads", 1))
    # each worker has its gradient, and its parameters unless it shares them; servers have parameters and their start
    copies = workers * (1 if config.topology.transport == "shm" else 2) + (2 if servers else 0) + aggregators
    return Demand(
        FLOAT_BYTES * weights * copies + TASK_BYTES * (computing + servers + aggregators),
        # every task has a heartbeat thread, too, and an aggregator one that sends
        COORDINATORS + computing * (threads + 1) + servers * 2 + aggregators * 3,
        computing + servers + aggregators,  # of the coordinator, which has a connection to every task
    )


def check_resources(demand: Demand, room: Room, config: Config) -> None:
    """Raise :class:`ConfigError` for a resource that does not suffice."""
    sizes = f"cluster.num_workers={config.num_workers}, topology.num_servers={config.topology.num_servers}"
    if room.memory_bytes is not None and demand.memory_bytes > room.memory_bytes:
        fields = [f"{name}={show(value)}" for name, value in config.workload.task.items() if isinstance(value, int)]
        raise ConfigError(
            f"workload={config.workload.name}: {', '.join([*fields, sizes])} need at least "
            f"{_amount(demand.memory_bytes)} of memory, and {_amount(room.memory_bytes)} are free; choose a smaller "
            "model or fewer tasks"
        )
    for limit in room.processes:
        if demand.processes > limit.value:
            threads = config.backend.get("num_threads")
            more = f", backend.num_threads={threads}" if threads else ""
            raise ConfigError(
                f"{sizes}{more}: {demand.processes} processes and threads, and {limit.name} leaves room for "
                f"{limit.value}; choose fewer, or raise that limit"
            )
    if room.descriptors is not None and demand.descriptors > room.descriptors.value:
        raise ConfigError(
            f"{sizes}: {demand.descriptors} connections, and {room.descriptors.name} leaves room for "
            f"{room.descriptors.value}; choose fewer tasks, or raise that limit"
        )


def look_around() -> Room:
    """The free resources of this machine."""
    return Room(_free_memory_bytes(), tuple(_process_limits()), _descriptor_limit())


def _free_memory_bytes() -> int | None:
    """Memory available without taking it from another process; a control group may allow less."""
    known: dict[str, int] = {}
    for line in (_read(PROC / "meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        known[name] = int(value.split()[0]) * 1024 if value.strip() else 0
    if "MemAvailable" not in known:
        return None
    free = known["MemAvailable"] + known.get("SwapFree", 0)
    return min([free, *(limit.value for limit in _group_limits("memory.max"))])


def _process_limits() -> Iterator[Limit]:
    """Limits on processes by the system, control groups and user."""
    for name in ("kernel/pid_max", "kernel/threads-max"):
        if (text := _read(PROC / "sys" / name)) and text.strip().isdigit():
            yield Limit(name.replace("/", "."), int(text))
    yield from _group_limits("pids.max")
    if hasattr(os, "geteuid") and os.geteuid() != 0:  # it does not apply to root
        import resource

        soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        if soft != resource.RLIM_INFINITY:
            yield Limit("ulimit -u", max(0, soft - _own_threads()))


def _descriptor_limit() -> Limit | None:
    try:
        import resource
    except ImportError:
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else Limit("ulimit -n", soft)


def _group_limits(name: str) -> Iterator[Limit]:
    """A limit of our control group and those above it (version 2)."""
    for line in (_read(PROC / "self" / "cgroup") or "").splitlines():
        if line.startswith("0::/"):
            inside = Path(line.removeprefix("0::/"))
            for group in (inside, *inside.parents):
                if (text := _read(CGROUPS / group / name)) and text.strip().isdigit():
                    yield Limit(f"{name} of its control group", int(text))


def _own_threads() -> int:
    """Threads of this user, whom the limit counts together."""
    count = 0
    for entry in PROC.iterdir() if PROC.is_dir() else ():  # Linux alone has it
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(entry / "task"))
        except OSError:  # it has just ended
            continue
    return count


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _amount(count: float) -> str:
    """Round to three digits for messages."""
    for unit in UNITS[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {UNITS[-1]}"


def check_fits(config: Config, task: object, runtime: Any, backend: Any, strategy: Strategy) -> None:
    """Whether the job fits into this machine; raises :class:`ConfigError`."""
    demand = demand_of(
        config,
        task,
        real_time=runtime.real_time,
        computes=backend.computes,
        scores=strategy.validation_samples > 0,
        aggregators=strategy.aggregators,
    )
    check_resources(demand, look_around(), config)
