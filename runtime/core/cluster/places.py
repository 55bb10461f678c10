"""Where the tasks of a job are (pure)."""

from __future__ import annotations

from msgspec.structs import replace

from strategies.protocol import JobRequest, NodeId, Placement, Places, Room


def hosts_of(places: Places) -> dict[str, int]:
    """The number of the host of every task (``worker:1``)."""
    roles = (("server", places.servers), ("worker", places.workers))
    return {str(NodeId(role, number)): host for role, hosts in roles for number, host in enumerate(hosts)}


def elsewhere(request: JobRequest, node: NodeId, machine: int, room: Room, placement: Placement) -> int | None:
    """The machine to which one task of a job would go from ``machine``; None: no other one has a place for it.

    It is where the placement puts the worker, or the server, of a gang of one that comes now, while the task's own
    machine counts as full.
    """
    others = room.copy()
    if free := others.free[machine]:
        filler = replace(request, job=f"{request.job} stays", gpus=free, servers=0)  # no job has a name like this
        others.take(filler, Places(workers=(machine,) * free))
    found = placement.place(replace(request, gpus=1, servers=int(node.role == "server")), others)
    if found is None:
        return None
    there = found.of(NodeId(node.role, 0))
    return None if there == machine else there
