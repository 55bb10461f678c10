"""Jobs as DLRover's Brain sees them: what nodes were given, and what they use."""

from __future__ import annotations

from collections.abc import Mapping

from strategies.dlrover.history import InitialPlan
from strategies.dlrover.plan import Limits
from strategies.parts.scaling.changes import AddWorkers, Change, Replace, Resize
from strategies.parts.scaling.usage import WINDOW, Given, UsageHistory, Use
from strategies.protocol import NodeId

GIB = 2**30
PAPER = Limits(cores_total=200, cores_max=32)
"""Section 6.1: 200 cores a job, 32 a pod; section 4.1: servers of 16."""


def cold(limits: Limits = PAPER) -> InitialPlan:
    """One worker and one server with as many cores as a machine has (section 4.2), or with half of the total."""
    cores = min(limits.cores_max, limits.cores_total // 2)
    return InitialPlan(
        workers=1,
        worker_cores=cores,
        worker_bytes=8 * GIB,
        servers=1,
        server_cores=cores,
        server_bytes=8 * GIB,
        source="workload",
    )


def given(role: str, count: int, cores: int, memory_bytes: int = 8 * GIB) -> dict[NodeId, Given]:
    """So many equal nodes of a role."""
    return {NodeId(role, number): Given(cores=cores, memory_bytes=memory_bytes) for number in range(count)}


def using(cores: Mapping[NodeId, float], **others: Mapping[NodeId, float]) -> dict[NodeId, Use]:
    """Cores that each node uses, and for some of them ``busy_frac`` or ``memory_bytes``."""
    busy, memory = others.get("busy_frac", {}), others.get("memory_bytes", {})
    return {
        node: Use(cores=used, busy_frac=busy.get(node, 0.1), memory_bytes=int(memory.get(node, GIB)))
        for node, used in cores.items()
    }


def observed(nodes: Mapping[NodeId, Given], uses: Mapping[NodeId, Use], times: int = WINDOW) -> UsageHistory:
    """The same observation so many times."""
    usage = UsageHistory()
    for _ in range(times):
        usage.observe(nodes, uses)
    return usage


def job(
    workers: tuple[int, int, float], servers: tuple[int, list[float]]
) -> tuple[dict[NodeId, Given], dict[NodeId, float]]:
    """(count, cores, used) of the workers and (cores, used by each) of the servers: as given and as used."""
    count, cores, used = workers
    server_cores, server_used = servers
    nodes = given("worker", count, cores) | given("server", len(server_used), server_cores)
    uses = {NodeId.worker(number): used for number in range(count)}
    return nodes, uses | {NodeId.server(number): one for number, one in enumerate(server_used)}


def in_words(change: Change) -> str:
    """A change of nodes, but for its memory."""
    match change:
        case Resize():
            return f"{change.count} {change.role}s of {change.cores}"
        case AddWorkers():
            return f"{change.count} more, {change.low_priority} low"
        case Replace():
            return f"{change.node}: {change.cores}{' elsewhere' if change.elsewhere else ''}"
    return f"{change.node}: none"
