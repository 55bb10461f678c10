"""Use of nodes and its consequences: samples, requests, and nodes that ran out of memory (DLRover section 4.2; pure).

The paper lists a lack of memory with the other problems of a stage. Here it is answered at once, before any rule of
``adjust``: the node is gone, and no other rule would replace it.

A node with a request may use idle cores, too, so a worker that is alone on a host of four cores seems to need four of
them, and servers that keep up with it four times what they need for a worker of one core. A plan may only count on
what is guaranteed. Both uses are proportional to the speed of the workers, so both are taken back by the same factor:
the workers' total use up to their requests, divided by their total use.

A worker of 1 core that uses 3.2, with servers that use 0.8: 1 core and 0.8 / 3.2 = 0.25. Time in which a worker waits
for others does not shrink with its cores, so with one core it would use a bit less than 1, and servers less than 0.25:
the estimate is an upper bound, at most by the part of its time for which it then waits.

A server is not cut: one that needs more than its request at that speed is too small, whatever is idle on its host now.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strategies.dlrover.plan import Limits, Need
from strategies.parts.scaling.changes import Replace, Resize
from strategies.parts.scaling.usage import Given, UsageHistory, Use
from strategies.protocol import NodeId


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


def at_requests(given: Mapping[NodeId, Given], uses: Mapping[NodeId, Use]) -> dict[NodeId, Use]:
    """The same observation with workers that use no more than their requests, and servers that serve just these.

    ``uses`` has every node of ``given``; memory and the time that servers are busy stay as they are.
    """
    workers = [node for node in given if node.role == "worker"]
    kept = {node: min(uses[node].cores, given[node].cores) for node in workers}
    used = sum(uses[node].cores for node in workers)
    part = sum(kept.values()) / used if used else 1.0
    return {
        node: msgspec.structs.replace(use, cores=kept[node] if node in kept else use.cores * part)
        for node, use in uses.items()
    }


UNEVEN_FRAC = 0.2
"""Servers whose fullest has more than this part of its memory above the mean are uneven: more servers do not help."""


def after_worker_oom(node: NodeId, given: Given) -> Replace:
    """A new worker with twice the memory."""
    return Replace(node=node, cores=given.cores, memory_bytes=2 * given.memory_bytes)


def after_server_oom(
    node: NodeId, given: Mapping[NodeId, Given], used_bytes: Mapping[NodeId, int], sampling: bool, limits: Limits
) -> Replace | Resize:
    """Twice as many servers, or twice the memory for this one.

    While the job is sampled the number doubles. Later that helps only if servers are about equally full; otherwise one
    of them holds a large tensor. Twice as many servers keep their cores if these fit into ``cores_total``, and
    otherwise get as many as fit; if that is not one core each, memory doubles after all.

    Args:
        node: the server that was killed.
        given: what all nodes were given, it among them.
        used_bytes: peak memory of each server, as far as it is known; the killed one had used all of its own.
        sampling: whether the job is still in its first stages.
        limits: what the job may have.
    """
    servers = [one for one in given if one.role == "server"]
    used = [max(used_bytes.get(one, 0), given[one].memory_bytes if one == node else 0) for one in servers]
    uneven = (max(used) - sum(used) / len(used)) / max(used) > UNEVEN_FRAC
    others = sum(one.cores for name, one in given.items() if name not in servers)
    cores = min(given[node].cores, (limits.cores_total - others) // (2 * len(servers)))
    if (uneven and not sampling) or cores < 1:
        return Replace(node=node, cores=given[node].cores, memory_bytes=2 * given[node].memory_bytes)
    return Resize(role="server", count=2 * len(servers), cores=cores, memory_bytes=given[node].memory_bytes)
