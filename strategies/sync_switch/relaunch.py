"""Restart of the whole cluster from a checkpoint, node by node (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.protocol import AnyEvent, Joined, Lost, NodeId, Restart, Restored, ServerLost


@final
class Relaunch:
    """Restarts every server, one after the other, and then all workers at once.

    A server's restart stores a checkpoint first and rolls all nodes to it, so nothing applied is lost; until it is
    complete, other commands are void. Workers come last: with a fail-over that rolls all back, they return to the last
    server's checkpoint. A node that crashes meanwhile has a new process already and is not restarted again.

    ``here`` are the present workers, ``todo`` the nodes that still have their old process, ``ordered`` those whose
    restart was commanded (void after a ``Restored``), ``awaited`` the workers whose new process has not joined yet.
    """

    def __init__(self, workers: Iterable[int], num_servers: int) -> None:
        self.here, self.num_servers = set(workers), num_servers
        self.under_way = self.halted = False
        self.todo: set[NodeId] | None = None
        self.ordered: set[NodeId] = set()
        self.awaited: set[int] = set()

    def begin(self) -> None:
        """Begin: no worker should start to compute from now on; restarts follow once none computes."""
        self.under_way, self.todo = True, None

    def owns(self, event: Lost) -> bool:
        """Whether this loss is due to one of its own restarts."""
        return not event.restarting and NodeId.worker(event.worker) in self.ordered

    def observe_event(self, event: AnyEvent) -> None:
        """Track present workers and completed restarts."""
        match event:
            case Lost(worker=worker):
                self.here.discard(worker)
                if self.under_way and (event.restarting or self.owns(event)):
                    self.awaited.add(worker)
                else:
                    self.awaited.discard(worker)
                self._done(NodeId.worker(worker))
            case Joined(worker=worker):
                self.here.add(worker)
                self.awaited.discard(worker)
            case ServerLost(server=server):
                self.halted = True
                self._done(NodeId.server(server))
            case Restored():
                self.halted = False
                self.here = set(event.workers)
                self.ordered.clear()
                self.awaited.clear()  # an absent worker may have left for good: a paused job receives no Lost

    def _done(self, node: NodeId) -> None:
        self.ordered.discard(node)
        if self.todo is not None:
            self.todo.discard(node)

    def proceed(self, idle: bool) -> list[Restart]:
        """Restarts to command after an event, given whether no worker computes; ends when none remain."""
        if not self.under_way or self.halted or (self.todo is None and not idle):
            return []
        if self.todo is None:
            servers = {NodeId.server(server) for server in range(self.num_servers)}
            self.todo = servers | {NodeId.worker(worker) for worker in self.here}
        servers = {node for node in self.todo if node.role == "server"}
        workers = {NodeId.worker(worker) for worker in self.here} & self.todo
        nodes = sorted(servers)[:1] or sorted(workers)
        self.under_way = bool(nodes or self.awaited)
        new = [node for node in nodes if node not in self.ordered]
        self.ordered.update(new)
        return [Restart(node=str(node)) for node in new]
