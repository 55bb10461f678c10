"""What a sample says: the cores that a worker and its updates use, and whether servers were too small (pure)."""

from __future__ import annotations

from strategies.dlrover.plan import Limits, Need
from strategies.parts.scaling.changes import Resize
from strategies.parts.scaling.usage import UsageHistory


def measured_need(usage: UsageHistory) -> Need | None:
    """w_hat, the mean over the workers, and s_hat, what all servers use per worker; None: one of them is still zero."""
    workers, servers = usage.nodes("worker"), usage.nodes("server")
    if not workers:
        return None
    worker_cores = sum(usage.cores(one) for one in workers) / len(workers)
    update_cores = sum(usage.cores(one) for one in servers) / len(workers)
    if worker_cores <= 0 or update_cores <= 0:
        return None
    return Need(worker_cores=worker_cores, update_cores=update_cores)


def larger_servers(usage: UsageHistory, limits: Limits, hot_util: float) -> Resize | None:
    """Twice the cores if a server used ``hot_util`` of its own, or twice the servers if a machine has no more.

    As many of these as fit next to the workers; None: no server is hot, or nothing more fits. With servers that are too
    small s_hat would be what there is and not what is needed (section 4.2).
    """
    servers = usage.nodes("server")
    given = [usage.given[one] for one in servers]
    if not any(usage.cores(one) >= hot_util * own.cores for one, own in zip(servers, given, strict=True)):
        return None
    cores = max(one.cores for one in given)
    room = limits.cores_total - sum(usage.given[one].cores for one in usage.nodes("worker"))
    count, wanted = (len(servers), 2 * cores) if cores < limits.cores_max else (2 * len(servers), cores)
    each = min(wanted, limits.cores_max, room // count)
    if count * each <= sum(one.cores for one in given):
        return None
    return Resize(role="server", count=count, cores=each, memory_bytes=max(one.memory_bytes for one in given))
