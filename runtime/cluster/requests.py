"""Whether a cluster can guarantee tasks the cores that they request (``strategy.cores_as=request``).

A task with a request has a share of its host in proportion to its cores. So on a host that promises no more cores than
it has, the task gets them whenever it can use them, and others may use idle ones. Hosts need a number of cores for it.
"""

from __future__ import annotations

from runtime.cluster.hosts import Hosts
from runtime.config.rules import Rule

SETTING = "strategy.cores_as=request"
OTHERWISE = "strategy.cores_as=limit"
UNREQUESTED_FRAC = 0.01
"""Part of a host as which a task counts that requests nothing: the kernel's default weight, where a host is 10,000."""


def _unlimited(hosts: Hosts | None) -> dict[str, object]:
    """The first host without a number of cores."""
    found = [] if hosts is None else [host.number for host in hosts.hosts if host.cores is None]
    return {"host": found[0]} if found else {}


REQUESTS: tuple[Rule[Hosts | None], ...] = (
    Rule(
        "requests without hosts",
        lambda hosts: hosts is None,
        f"{SETTING}: without hosts there are no cores of which a part could be guaranteed",
        f"use {OTHERWISE}, or choose cluster=hosts",
    ),
    Rule(
        "requests on hosts without a number of cores",
        _unlimited,
        f"{SETTING}: host {{host}} has no number of cores (cluster.hosts.cpu_cores=null) of which a part could be "
        "guaranteed",
        f"give it one, or use {OTHERWISE}",
    ),
)
"""Where tasks share nothing of which a part could be guaranteed."""
