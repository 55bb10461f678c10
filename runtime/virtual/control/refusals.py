"""Refusals of settings that a virtual cluster could not show, before the run (pure)."""

from __future__ import annotations

from injectors.plan import target_of
from runtime.api import RunContext
from runtime.cluster.hosts import Hosts
from runtime.cluster.requests import OTHERWISE, SETTING
from runtime.errors import ConfigError
from runtime.virtual.costs import Costs
from runtime.virtual.machines import kernel
from runtime.virtual.machines.machines import SHARED

LOADING_FRAC = 0.02
"""Part of a device's time per sample: with at least this loading time, a throttled processor shows."""


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
