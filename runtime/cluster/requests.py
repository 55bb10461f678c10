"""Whether a cluster can guarantee tasks the cores that they request (``strategy.cores_as=request``).

A task with a request has a share of its host in proportion to its cores, so on a host that promises no more cores than
it has, it gets them whenever it can use them; what it leaves idle is anybody's. So hosts need a number of cores.
"""

from __future__ import annotations

from runtime.cluster.hosts import Hosts
from runtime.errors import ConfigError

SETTING = "strategy.cores_as=request"
OTHERWISE = "strategy.cores_as=limit"
UNREQUESTED_FRAC = 0.01
"""Part of a host as which a task counts that requests nothing: the kernel's default weight, where a host is 10,000."""


def refuse_requests(hosts: Hosts | None) -> None:
    """Raise :class:`ConfigError` where tasks share nothing of which a part could be guaranteed."""
    if hosts is None:
        raise ConfigError(
            f"{SETTING}: without hosts there are no cores of which a part could be guaranteed; use {OTHERWISE}, or "
            "choose cluster=hosts"
        )
    for host in hosts.hosts:
        if host.cores is None:
            raise ConfigError(
                f"{SETTING}: host {host.number} has no number of cores (cluster.hosts.cpu_cores=null) of which a part "
                f"could be guaranteed; give it one, or use {OTHERWISE}"
            )
