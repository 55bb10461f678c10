"""Where the tasks of a job are (pure)."""

from __future__ import annotations

from strategies.protocol import NodeId, Places


def hosts_of(places: Places) -> dict[str, int]:
    """The number of the host of every task (``worker:1``)."""
    roles = (("server", places.servers), ("worker", places.workers))
    return {str(NodeId(role, number)): host for role, hosts in roles for number, host in enumerate(hosts)}
