"""Refusals of settings that a virtual cluster could not show, before the run (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from injectors.plan import target_of
from runtime.api import RunContext
from runtime.cluster.hosts import Hosts
from runtime.cluster.requests import OTHERWISE, SETTING
from runtime.config.rules import Rule
from runtime.errors import ConfigError
from runtime.virtual.costs import Costs
from runtime.virtual.machines import kernel
from runtime.virtual.machines.machines import SHARED

LOADING_FRAC = 0.02
"""Part of a device's time per sample: with at least this loading time, a throttled processor shows."""


def refuse_without_kernel(hosts: Hosts | None, costs: Costs, around: RunContext) -> None:
    """Raise :class:`ConfigError` for a job whose tasks share something, if the kernel that models that is missing.

    It is no rule, since only this installation lacks the kernel.
    """
    if kernel.COMPILED is not None or not around.trains:
        return
    shared = sorted(around.kinds & SHARED)
    if hosts is not None:
        raise ConfigError(kernel.missing("cluster.hosts: hosts"))
    if shared:
        raise ConfigError(kernel.missing(f"straggler: disturbances of work in progress ({', '.join(shared)})"))
    if costs.link_bytes_per_s is not None and around.num_servers and around.transport != "shm":
        raise ConfigError(kernel.missing("cluster.costs: links with a rate (link_bytes_per_s)"))


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The disturbances that a virtual cluster can show."""

    hosts: Hosts | None
    costs: Costs
    around: RunContext
    paced_s: float
    """Seconds per sample of the slowest device that paces a worker; 0: none does."""


def _find_pacing(job: Shown) -> dict[str, object]:
    """A throttled task whose device sleeps for longer."""
    if "cpu" not in job.around.kinds or job.costs.data_s(1) >= LOADING_FRAC * job.paced_s:
        return {}
    found = [one for one in sorted(job.around.disturbed) if target_of(one).form in ("worker", "host")]
    return {"target": found[0]} if found else {}


def _endless_link(job: Shown) -> dict[str, object]:
    """A throttled link without a rate."""
    if job.hosts is None or "bandwidth" not in job.around.kinds or job.costs.link_bytes_per_s is not None:
        return {}
    endless = {f"link:{host.number}" for host in job.hosts.hosts if host.link_bytes_per_s is None}
    found = [target for target in sorted(job.around.disturbed) if target.partition(">")[0] in endless]
    return {"target": found[0]} if found else {}


def _endless_host(job: Shown) -> dict[str, object]:
    """A throttled host without a quota."""
    if job.hosts is None or "cpu" not in job.around.kinds:
        return {}
    endless = {f"host:{host.number}" for host in job.hosts.hosts if host.cores is None}
    found = sorted(job.around.disturbed & endless)
    return {"target": found[0]} if found else {}


HIDDEN: tuple[Rule[Shown], ...] = (
    Rule(
        "a throttled processor and paced devices",
        _find_pacing,
        "cluster.device: paces the iterations of {target} by sleeping, which would hide a throttled processor",
        "set cluster.device=null, or choose a straggler that sleeps",
    ),
    Rule(
        "requests and a part of a GPU",
        lambda job: "gpu" in job.around.kinds and job.around.cores_as == "request",
        f"{SETTING}: shares a host's processor by weights, which computing on a disturbed GPU has none of",
        f"use {OTHERWISE}, or choose a straggler without kind gpu",
    ),
    Rule(
        "hosts and shared memory",
        lambda job: job.hosts is not None and job.around.transport != "tcp",
        "topology.transport={around.transport}: hosts share no memory",
        "use topology.transport=tcp",
    ),
    Rule(
        "concurrent delays and shared machines",
        lambda job: job.costs.concurrent_delays and (job.hosts is not None or bool(job.around.kinds & SHARED)),
        "cluster.costs: concurrent_delays are not modelled on hosts, nor with disturbances of work in progress",
        "choose other costs, or a straggler that sleeps",
    ),
    Rule(
        "throttled links without a rate",
        _endless_link,
        "cluster.hosts.link_mbps=null: {target} has no rate to throttle",
        "give it one, or choose another straggler",
    ),
    Rule(
        "throttled hosts without a quota",
        _endless_host,
        "cluster.hosts.cpu_cores=null: {target} has no quota to throttle",
        "give it one, or choose another straggler",
    ),
)
"""Settings without effect."""
