"""What follows when a node was killed for want of memory (DLRover section 4.2; pure).

The paper lists it with the other problems of a stage. Here it is answered as soon as it happens, before any rule of
``adjust``: the node is gone, and whatever else matches would leave it so.
"""

from __future__ import annotations

from collections.abc import Mapping

from strategies.dlrover.plan import Limits
from strategies.parts.scaling.changes import Replace, Resize
from strategies.parts.scaling.usage import Given
from strategies.protocol import NodeId

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
    of them holds a large tensor. Twice as many servers keep their cores where these fit into ``cores_total``, and get
    what fits otherwise; if that is not one core each, memory doubles after all.

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
