"""The mechanisms by which a live run builds its hosts and carries out its plan here, or why it cannot (pure).

Nothing is skipped silently: one of the mechanisms does what a configuration requests, or the job is refused before it
starts, with one line that names the missing capability and the cure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from injectors.actuators.cpulimit_grants import percent_for
from injectors.plan import target_of
from runtime.cluster.hosts import Hosts, Placement
from runtime.cluster.requests import OTHERWISE, REQUESTS, SETTING
from runtime.config.rules import check_combinations
from runtime.containment import Isolation
from runtime.errors import ConfigError

if TYPE_CHECKING:
    from runtime.api import RunContext

CpuBy = Literal["auto", "cgroup", "duty", "cpulimit"]
TicksWanted = Literal["auto"] | bool
"""Whether the kernel is to look at quotas more often; auto: where this user may have it."""
TICKS_DEMANDED = "runtime.ticks=true"
ALLOCATING = frozenset({"Launch", "Allocate"})
"""Commands by which a strategy says what a node may use. A ``Launch`` with a limit of memory is denied without control
groups."""


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A test for something that this machine or user cannot do."""

    reason: str
    cure: str


Look = Callable[[str], Missing | None]
"""Whether a capability (a name of ``runtime.live.machines.doctor.CAPABILITIES``) is missing here."""


class Mechanisms(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen mechanisms; recorded in ``meta.json``."""

    isolation: Isolation
    host_quotas: Literal["none", "cgroup", "duty"]
    """Limits hosts to their cores."""
    throttles: Literal["none", "cgroup", "duty", "cpulimit"]
    """Carries out disturbances of kind ``cpu``."""
    latency: Literal["none", "netem", "relay"]
    network: bool
    memory: bool
    allocations: Literal["none", "cgroup", "duty", "cpulimit"] = "none"
    """Limits tasks to the cores that a strategy allocates; the same as ``throttles``, if that is not none."""
    ticks: bool = False
    """Whether the kernel is made to look at quotas of control groups more often: ``runtime/live/machines/ticks.py``."""
    ticks_because: str = ""
    """Why, or why not; empty in older records."""

    @property
    def ticks_demanded(self) -> bool:
        """Whether a run that cannot have them is refused."""
        return self.ticks_because == TICKS_DEMANDED

    @property
    def cpu_groups(self) -> bool:
        """Whether control groups limit a task or host to a share of the processor."""
        return "cgroup" in (self.allocations, self.host_quotas, self.throttles)

    @property
    def cgroups(self) -> bool:
        """Whether control groups are created."""
        return self.cpu_groups or self.memory


NOTHING = Mechanisms(
    isolation=Isolation.NONE, host_quotas="none", throttles="none", latency="none", network=False, memory=False
)
"""The mechanisms without hosts and disturbances: none."""


def choose_mechanisms(
    hosts: Hosts | None,
    cpu_by: CpuBy,
    device: bool,
    around: RunContext,
    missing: Look,
    ticks: TicksWanted = "auto",
) -> Mechanisms:
    """The mechanisms for ``hosts`` (None: no emulated hosts) and a plan; raises :class:`ConfigError`.

    ``device``: whether a device profile paces the workers.
    """
    _refuse_hidden(hosts, device, around)
    if around.cores_as == "request":
        _refuse_shares(hosts, cpu_by, missing)
    if hosts is not None:
        _refuse_turns(hosts, missing)
    quotas = "none" if hosts is None or not hosts.cores else _quota_mechanism(cpu_by, missing)
    throttles = _throttle_mechanism(cpu_by, quotas, hosts, around, missing) if "cpu" in around.kinds else "none"
    memory = hosts is not None and any(host.memory_bytes for host in hosts.hosts)
    if memory:
        _demand("cgroup_memory", "cluster.hosts.memory_mb", missing, "or set cluster.hosts.memory_mb=null")
    allocates = not ALLOCATING.isdisjoint(around.commands)
    chosen = Mechanisms(
        isolation=_isolation(hosts, around, missing),
        host_quotas=quotas,
        throttles=throttles,
        latency=_latency_mechanism(hosts, missing),
        network=hosts is not None,
        memory=memory or (allocates and missing("cgroup_memory") is None),
        allocations=_throttle_mechanism(cpu_by, quotas, hosts, around, missing) if allocates else "none",
    )
    used, because = _ticks(ticks, chosen.cpu_groups, missing)
    return msgspec.structs.replace(chosen, ticks=used, ticks_because=because)


def _ticks(wanted: TicksWanted, limits: bool, missing: Look) -> tuple[bool, str]:
    """Whether the kernel is made to look at quotas more often, and why; ``limits``: whether control groups have any."""
    if wanted is False:
        return False, "runtime.ticks=false"
    if not limits:
        if wanted is True:
            raise ConfigError(f"{TICKS_DEMANDED}: no control group of this run has a quota; use runtime.ticks=auto")
        return False, "no control group has a quota"
    if wanted is True:
        _demand("realtime", TICKS_DEMANDED, missing, "or use runtime.ticks=auto")
    lack = missing("realtime")
    return lack is None, f"runtime.ticks={str(wanted).lower()}" if lack is None else lack.reason


def _refuse_shares(hosts: Hosts | None, cpu_by: CpuBy, missing: Look) -> None:
    """Refuse requests that nothing would guarantee: only control groups have weights."""
    check_combinations(REQUESTS, hosts)
    if cpu_by in ("duty", "cpulimit"):
        raise ConfigError(
            f"runtime.cpu_by={cpu_by}: stops tasks at a limit, and guarantees nobody the cores of {SETTING}; use "
            f"runtime.cpu_by=auto, or {OTHERWISE}"
        )
    _demand("cgroup_cpu", SETTING, missing, f"or use {OTHERWISE}")


def _refuse_hidden(hosts: Hosts | None, device: bool, around: RunContext) -> None:
    """Refuse settings that would have no effect."""
    if hosts is not None and around.transport != "tcp":
        raise ConfigError(f"topology.transport={around.transport}: hosts share no memory; use topology.transport=tcp")
    paced = device or (hosts is not None and any(host.device for host in hosts.hosts))
    hidden = [target for target in around.targets_of("cpu") if target_of(target).form in ("worker", "host")]
    if paced and hidden:
        raise ConfigError(
            f"cluster.device: paces the iterations of {hidden[0]} by sleeping, which would hide a throttled processor; "
            "set cluster.device=null, or choose a straggler that sleeps"
        )
    if paced and (taken := around.targets_of("gpu")):
        raise ConfigError(
            f"cluster.device: paces the iterations of {taken[0]} by sleeping, which would hide what is taken of a GPU; "
            "set cluster.device=null, or choose a straggler that sleeps"
        )
    if hosts is not None:
        unlimited = [host.number for host in hosts.hosts if host.link_bytes_per_s is None]
        for target in around.targets_of("bandwidth"):
            if target_of(target).number in unlimited:
                raise ConfigError(
                    f"cluster.hosts.link_mbps=null: {target} has no rate to throttle; give it one, or choose another "
                    "straggler"
                )


def _isolation(hosts: Hosts | None, around: RunContext, missing: Look) -> Isolation:
    if hosts is not None:
        if around.containment == "none":
            raise ConfigError("containment=none: emulated hosts live in namespaces; use containment=auto")
        _demand("network", "cluster.hosts", missing, "or choose cluster=local")
        _demand("links", "cluster.hosts", missing, "or choose cluster=local")
        if any(target_of(target).form == "route" for target in around.disturbed):
            _demand("peers", "straggler", missing, "or slow down whole links (link:0)")
        return Isolation.NETWORK
    if around.containment == "none" or missing("namespaces"):
        return Isolation.NONE
    return Isolation.PROCESSES


def _quota_mechanism(cpu_by: CpuBy, missing: Look) -> Literal["cgroup", "duty"]:
    """A control group is exact and costs nothing; stopping and continuing processes needs no privilege."""
    if cpu_by == "cgroup":
        _demand("cgroup_cpu", "runtime.cpu_by=cgroup", missing, "or use runtime.cpu_by=duty")
        return "cgroup"
    return "duty" if cpu_by == "duty" or missing("cgroup_cpu") else "cgroup"


def _refuse_levels(hosts: Hosts | None, around: RunContext) -> None:
    """Refuse levels that cpulimit has no percent for."""
    placement = None if hosts is None else Placement(hosts)
    for target, left_frac in sorted(around.cpu_left):
        cores = 1.0 if placement is None else min(placement.host(target).cores or 1.0, 1.0)
        try:
            percent_for(left_frac * cores, cores)
        except ValueError as error:
            raise ConfigError(f"runtime.cpu_by=cpulimit: {target} with {left_frac:g} left: {error}") from None


def _throttle_mechanism(
    cpu_by: CpuBy, quotas: str, hosts: Hosts | None, around: RunContext, missing: Look
) -> Literal["cgroup", "duty", "cpulimit"]:
    if cpu_by == "cpulimit":
        if whole := [target for target in around.targets_of("cpu") if target_of(target).form == "host"]:
            raise ConfigError(
                f"runtime.cpu_by=cpulimit: limits single processes, not {whole[0]}; use runtime.cpu_by=auto"
            )
        if quotas == "duty":
            raise ConfigError(
                "runtime.cpu_by=cpulimit: would continue what the quotas of hosts stop, without control groups; use "
                "runtime.cpu_by=duty, or set cluster.hosts.cpu_cores=null"
            )
        _demand("cpulimit", "runtime.cpu_by=cpulimit", missing, "or use runtime.cpu_by=auto")
        _refuse_levels(hosts, around)
        return "cpulimit"
    if quotas == "duty" or quotas == "cgroup":
        return quotas  # type: ignore[return-value]
    return _quota_mechanism(cpu_by, missing)


def _refuse_turns(hosts: Hosts, missing: Look) -> None:
    """Refuse queues that serve hosts in turn, where they could not or where nothing waits in them."""
    fair = [host for host in hosts.hosts if host.fair_queues]
    if not fair:
        return
    _demand("peers", "cluster.hosts.fair_queues", missing, "or set it to false")
    for host in fair:
        if host.link_bytes_per_s is None:
            raise ConfigError(
                f"cluster.hosts.fair_queues: nothing waits at host {host.number}, whose link_mbps is null"
            )
    if _latency_mechanism(hosts, missing) == "relay":
        raise ConfigError(
            "cluster.hosts.fair_queues: with a latency by relay (this kernel has no netem) all packets come from the "
            "relay, so that hosts cannot take turns; set cluster.hosts.latency_ms=0, or fair_queues=false"
        )


def _latency_mechanism(hosts: Hosts | None, missing: Look) -> Literal["none", "netem", "relay"]:
    if hosts is None or not any(host.latency_s for host in hosts.hosts):
        return "none"
    return "relay" if missing("netem") else "netem"


def _demand(name: str, setting: str, missing: Look, otherwise: str) -> None:
    if (lack := missing(name)) is not None:
        raise ConfigError(f"{setting}: {lack.reason}; {lack.cure}, {otherwise}")
