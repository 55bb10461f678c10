"""Books of the nodes that a record speaks of: numbers, newcomers, holders of the parameters (of the laws' audit)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strategies.protocol import (
    Denied,
    Joined,
    Launch,
    Lost,
    NodeId,
    Repartition,
    Restart,
    Restored,
    Retire,
    ServerJoined,
    ServerLost,
    Started,
)


class NodeAudit:
    """``demand(lawful, complaint)`` notes what is not lawful.

    ``awaited`` are nodes that were launched and of which nothing was heard; those of an operator are in nobody's books
    before they join.
    """

    def __init__(self, demand: Callable[[bool, str], None]) -> None:
        self.demand = demand
        self.next = {"worker": 0, "server": 0}
        self.awaited: set[NodeId] = set()
        self.gone: set[NodeId] = set()
        self.servers: set[int] = set()
        self.holders: tuple[int, ...] = ()
        self.moving: tuple[int, ...] | None = None
        """The servers of a repartition that nothing has come in between."""

    def happened(self, event: Any) -> None:
        match event:
            case Started():
                self.next = {"worker": len(event.workers), "server": event.num_servers}
                self.holders = tuple(range(event.num_servers))
                self.servers = set(self.holders)
            case Joined():
                self.joined(NodeId.worker(event.worker), event)
            case ServerJoined():
                self.demand(event.server not in self.servers, f"{event}: it was there")
                self.joined(NodeId.server(event.server), event)
                self.servers.add(event.server)
            case Denied():
                self.denied(NodeId.parse(event.node), event)
            case Lost(restarting=False, cause=cause) if cause != "restarted":
                self.gone.add(NodeId.worker(event.worker))
                self.moving = None  # with failover=checkpoint all roll back
            case Lost():
                self.moving = None
            case ServerLost():
                self.server_lost(event)
            case Restored():
                self.restored(event)

    def joined(self, node: NodeId, event: Any) -> None:
        self.demand(node not in self.gone, f"{event}: it has left for good")
        self.awaited.discard(node)
        self.next[node.role] = max(self.next[node.role], node.number + 1)

    def denied(self, node: NodeId, event: Denied) -> None:
        """What was asked for a node that is there leaves it as it is."""
        self.demand(node not in self.gone, f"{event}: it has left for good")
        if node in self.awaited:
            self.awaited.discard(node)
            if "the number is taken" not in event.reason:  # else by an operator's newcomer, which may still come
                self.gone.add(node)

    def server_lost(self, event: ServerLost) -> None:
        if event.holding:
            self.moving = None
            return
        self.demand(event.server in self.servers, f"{event}: it was not there")
        self.servers.discard(event.server)
        self.gone.add(NodeId.server(event.server))
        if self.moving is not None and event.server in {*self.moving, *self.holders}:
            self.moving = None

    def restored(self, event: Restored) -> None:
        for worker in event.workers:
            self.joined(NodeId.worker(worker), event)
        self.demand(set(event.servers) <= self.servers, f"{event}: held by servers that are not there")
        if self.moving is not None:
            self.demand(event.servers == self.moving, f"{event}: {self.moving} were to hold the parameters")
        self.holders, self.moving = event.servers, None

    def ordered(self, command: Any) -> None:
        match command:
            case Launch():
                node = NodeId.parse(command.node)
                self.demand(node.number >= self.next[node.role], f"{command}: this number was given before")
                self.next[node.role] = node.number + 1
                self.awaited.add(node)
            case Retire():
                self.retired(NodeId.parse(command.node))
            case Repartition():
                self.demand(set(command.servers) <= self.servers, f"{command}: to servers that are not there")
                self.moving = command.servers
            case Restart() if command.node.startswith("server:"):
                number = NodeId.parse(command.node).number
                self.demand(number in self.holders, f"{command}: it holds nothing")

    def retired(self, node: NodeId) -> None:
        """Nothing follows for one that is awaited, or for a server: it has left at once."""
        if node in self.awaited:
            self.awaited.discard(node)
            self.gone.add(node)
        elif node.role == "server" and node.number not in self.holders:
            self.servers.discard(node.number)
            self.gone.add(node)
