"""How the rate of a machine's link is divided among the connections that share it (pure).

Machines that have joined have no queue of ours at their link, only connections, each of which the kernel can pace. A
queue would give an idle connection's part to others; pacing cannot, so every connection always has an equal part, and
all together never send more than the link's rate. A connection on several limited links has the least of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from injectors.plan import target_of
from strategies.protocol import NodeId

Flow = tuple[str, str]
"""Sender and receiver, ``("worker:1", "server:0")``: gradients that way, parameters the other."""


def flows_between(machine_of: Mapping[str, int]) -> list[Flow]:
    """Return the flows between workers and servers on different machines, in both directions."""
    servers = [task for task in machine_of if NodeId.parse(task).role == "server"]
    workers = [task for task in machine_of if NodeId.parse(task).role == "worker"]
    pairs = [(one, other) for one in workers for other in servers if machine_of[one] != machine_of[other]]
    return [flow for one, other in pairs for flow in ((one, other), (other, one))]


def flows_of(target: str, machine_of: Mapping[str, int]) -> Iterator[list[Flow]]:
    """The flows that share a rate: out of and into a machine (``link:1``), or on a route (``link:0>1``)."""
    flows = flows_between(machine_of)
    sender, *receivers = target_of(target).ids
    out = [flow for flow in flows if machine_of[flow[0]] == sender]
    if receivers:
        yield [flow for flow in out if machine_of[flow[1]] == receivers[0]]
        return
    yield out
    yield [flow for flow in flows if machine_of[flow[1]] == sender]


def rates_of_flows(machine_of: Mapping[str, int], limits: Mapping[str, float]) -> dict[Flow, float]:
    """The rates of all flows that have one.

    Args:
        machine_of: the machine's number, by worker and server.
        limits: the rate of a link, in each direction, or of a route, by target; any unit.
    """
    rates: dict[Flow, float] = {}
    for target, limit in limits.items():
        for sharing in flows_of(target, machine_of):
            for flow in sharing:
                rates[flow] = min(limit / len(sharing), rates.get(flow, limit))
    return rates
