"""A new cluster from a checkpoint, made of single restarts (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.protocol import AnyEvent, Joined, Lost, Restart, Restored, ServerLost


@final
class Relaunch:
    """Restarts every server, one after the other, and then all workers at once.

    A server's restart stores a checkpoint first and takes everybody to it, so nothing that was applied is lost; until
    that is done no other command counts. Workers come last: with a fail-over that takes all back, they go back to what
    the last server has stored. Whoever crashes on the way has its new process already and is not restarted again.

    ``here`` are the workers that are there, ``todo`` the nodes that keep their old process, ``ordered`` those of them
    whose restart was commanded (all of it is void after a ``Restored``), ``awaited`` the workers whose new process is
    not there yet.
    """

    def __init__(self, workers: Iterable[int], num_servers: int) -> None:
        self.here, self.num_servers = set(workers), num_servers
        self.under_way = self.halted = False
        self.todo: set[str] | None = None
        self.ordered: set[str] = set()
        self.awaited: set[int] = set()

    def begin(self) -> None:
        """From now on nobody should begin to compute; restarts follow when nobody does any more."""
        self.under_way, self.todo = True, None

    def owns(self, event: Lost) -> bool:
        """Whether this is the loss of a process that it has restarted itself."""
        return not event.restarting and f"worker:{event.worker}" in self.ordered

    def observe_event(self, event: AnyEvent) -> None:
        """Who is there, and what has been done."""
        match event:
            case Lost(worker=worker):
                self.here.discard(worker)
                if self.under_way and (event.restarting or self.owns(event)):
                    self.awaited.add(worker)
                else:
                    self.awaited.discard(worker)
                self._done(f"worker:{worker}")
            case Joined(worker=worker):
                self.here.add(worker)
                self.awaited.discard(worker)
            case ServerLost(server=server):
                self.halted = True
                self._done(f"server:{server}")
            case Restored():
                self.halted = False
                self.here = set(event.workers)
                self.ordered.clear()
                self.awaited.clear()  # who is not there may never be: that is not told while everything stands still

    def _done(self, node: str) -> None:
        self.ordered.discard(node)
        if self.todo is not None:
            self.todo.discard(node)

    def proceed(self, idle: bool) -> list[Restart]:
        """What to command after an event, given whether nobody computes; ends when nothing is left to be done."""
        if not self.under_way or self.halted or (self.todo is None and not idle):
            return []
        if self.todo is None:
            servers = {f"server:{server}" for server in range(self.num_servers)}
            self.todo = servers | {f"worker:{worker}" for worker in self.here}
        servers = {node for node in self.todo if node.startswith("server:")}
        workers = {f"worker:{worker}" for worker in self.here} & self.todo
        nodes = sorted(servers, key=_number)[:1] or sorted(workers, key=_number)
        self.under_way = bool(nodes or self.awaited)
        new = [node for node in nodes if node not in self.ordered]
        self.ordered.update(new)
        return [Restart(node=node) for node in new]


def _number(node: str) -> int:
    return int(node.partition(":")[2])
