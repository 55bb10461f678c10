"""Refusals of settings that a virtual cluster could not show, before the run (pure)."""

from __future__ import annotations

from collections.abc import Iterable

from injectors.plan import OF_MEMBERS, Disturbance, Kind, target_of
from runtime.api import RunContext
from runtime.cluster.hosts import Hosts
from runtime.cluster.requests import OTHERWISE, SETTING
from runtime.errors import ConfigError
from runtime.virtual.costs import Costs
from runtime.virtual.machines import kernel
from runtime.virtual.machines.machines import SHARED
from strategies.protocol import Strategy

LOADING_FRAC = 0.02
"""Part of a device's time per sample: with at least this loading time, a throttled processor shows."""


LOSING: frozenset[Kind] = frozenset({"kill", "pause"})
"""Kinds of disturbances by which a process may be lost. Where that takes all back to a checkpoint nobody knows how far,
since jumps take checkpoints along."""
IN_DETAIL = "or replay.detail=iterations, which carries out every one of them"


def refuse_jumps(
    strategy: Strategy, plan: Iterable[Disturbance], *, halts_on_loss: bool, computes: bool, telemetry: bool
) -> None:
    """Raise :class:`ConfigError` for a job whose iterations cannot be skipped.

    ``plan``: its disturbances; ``halts_on_loss``: whether the others stop when a worker is lost; ``computes``: whether
    gradients are computed; ``telemetry``: whether the use of nodes is sampled.
    """
    if computes:
        raise ConfigError(
            f"replay.detail=measured: skipped iterations have no gradients; set backend=none, {IN_DETAIL}"
        )
    if not strategy.may_jump:
        name = type(strategy).__name__
        raise ConfigError(
            f"replay.detail=measured: {name} decides by what it sees of every iteration (Strategy.may_jump); choose a "
            f"strategy that does not, {IN_DETAIL}"
        )
    if telemetry:
        raise ConfigError(
            f"replay.detail=measured: runtime.telemetry_every_s would end every jump; set it to null, {IN_DETAIL}"
        )
    for one in plan:
        if one.kind in OF_MEMBERS:
            raise ConfigError(
                f"replay.detail=measured: a plan with {one.kind} changes who computes; choose a straggler that only "
                f"slows down, {IN_DETAIL}"
            )
        if one.kind in LOSING and (halts_on_loss or target_of(one.target).form != "worker"):
            raise ConfigError(
                f"replay.detail=measured: a {one.kind} of {one.target} may take all back to a checkpoint; disturb "
                f"workers of a job with servers and failover=shards, {IN_DETAIL}"
            )


def refuse_without_kernel(hosts: Hosts | None, costs: Costs, around: RunContext) -> None:
    """Raise :class:`ConfigError` for a job whose tasks share something, if the kernel that models that is missing."""
    if kernel.COMPILED is not None or not around.trains:
        return
    shared = sorted(around.kinds & SHARED)
    if hosts is not None:
        raise ConfigError(kernel.missing("cluster.hosts: hosts"))
    if shared:
        raise ConfigError(kernel.missing(f"straggler: disturbances of work in progress ({', '.join(shared)})"))
    if costs.link_bytes_per_s is not None and around.num_servers and around.transport != "shm":
        raise ConfigError(kernel.missing("cluster.costs: links with a rate (link_bytes_per_s)"))


def refuse_hidden(hosts: Hosts | None, costs: Costs, around: RunContext, *, paced_s: float) -> None:
    """Raise :class:`ConfigError` for settings without effect.

    ``paced_s``: seconds per sample of the slowest device that paces a worker; 0: none does.
    """
    disturbed = sorted(around.disturbed)
    if "cpu" in around.kinds and costs.data_s(1) < LOADING_FRAC * paced_s:
        hidden = [target for target in disturbed if target_of(target).form in ("worker", "host")]
        if hidden:
            raise ConfigError(
                f"cluster.device: paces the iterations of {hidden[0]} by sleeping, which would hide a throttled "
                "processor; set cluster.device=null, or choose a straggler that sleeps"
            )
    if "gpu" in around.kinds and around.cores_as == "request":
        raise ConfigError(
            f"{SETTING}: shares a host's processor by weights, which computing on a disturbed GPU has none of; use "
            f"{OTHERWISE}, or choose a straggler without kind gpu"
        )
    if hosts is not None:
        _refuse_hidden_hosts(hosts, costs, around)


def _refuse_hidden_hosts(hosts: Hosts, costs: Costs, around: RunContext) -> None:
    if around.transport != "tcp":
        raise ConfigError(f"topology.transport={around.transport}: hosts share no memory; use topology.transport=tcp")
    if "bandwidth" in around.kinds and costs.link_bytes_per_s is None:
        endless = {f"link:{host.number}" for host in hosts.hosts if host.link_bytes_per_s is None}
        for target in sorted(around.disturbed):
            if target.partition(">")[0] in endless:
                raise ConfigError(f"cluster.hosts.link_mbps=null: {target} has no rate to throttle")
    if "cpu" in around.kinds:
        endless = {f"host:{host.number}" for host in hosts.hosts if host.cores is None}
        for target in sorted(around.disturbed & endless):
            raise ConfigError(f"cluster.hosts.cpu_cores=null: {target} has no quota to throttle")
