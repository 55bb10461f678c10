"""Carries changes of a job's nodes out, one decision at a time (pure).

Workers come and go during training; servers change by one switch for all of a decision
(:mod:`strategies.parts.scaling.node_changes`). If that is not seamless, another number of workers restarts the present
ones, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

from strategies.parts.scaling.changes import AddWorkers, Change, Replace, Resize, StopWaiting
from strategies.parts.scaling.fleet import Fleet
from strategies.parts.scaling.node_changes import ServerChanges, WorkerChanges
from strategies.parts.scaling.switch import Switch
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Arrived,
    Checkpoint,
    Compute,
    Denied,
    Failed,
    Joined,
    Lost,
    NodeId,
    Restart,
    Restored,
    Retire,
    ServerJoined,
    ServerLost,
    Started,
    Woke,
)


@final
class Resizing:
    """Carries out the changes of one decision; ``settled`` says then whether they were granted, until it is taken.

    Args:
        fleet: the nodes, which the caller keeps up to date.
        seamless: whether workers train while new nodes start; False: all stop first, and restart.
        launch_s: seconds that new nodes may take; a worker that joins later is one more than was counted on.
        drain_s: seconds for which a switch waits for gradients.
    """

    def __init__(self, fleet: Fleet, seamless: bool, launch_s: float, drain_s: float) -> None:
        self.fleet, self.seamless, self.launch_s, self.drain_s = fleet, seamless, launch_s, drain_s

    def start(self, started: Started) -> None:
        self.workers = WorkerChanges(self.fleet)
        servers = map(NodeId.server, range(started.num_servers))
        switch = Switch(servers, self.seamless, self.launch_s, self.drain_s)
        self.servers = ServerChanges(self.fleet, switch, self.workers.restart)
        self.settled: bool | None = None
        self.busy = False
        self._begun_s = 0.0
        self._withheld: set[int] = set()
        self._leaving: set[int] = set()
        """Workers that got no Compute because they are retired."""

    # ---- a decision --------------------------------------------------------------------------------------------------

    def begin(self, t: float, changes: Sequence[Change]) -> list[AnyCommand]:
        """Begin to carry these out; ``settled`` follows, at once if there is nothing to wait for."""
        self.busy, self.settled, self._begun_s = True, None, t
        self.workers.came = self.workers.denied = 0
        commands: list[AnyCommand] = []
        of_servers: list[Resize | Replace] = []
        for change in changes:
            match change:
                case Resize(role="server"):
                    of_servers.append(change)
                case Replace(node=node) if node.role == "server":
                    of_servers.append(change)
                case Resize():
                    commands += self.workers.resize(change)
                case AddWorkers():
                    commands += self.workers.add(change)
                case Replace():
                    commands += self.workers.replace(change)
                case StopWaiting(node=node):
                    commands += [Restart(node=str(node))] if node in self.fleet.here else []
        commands += self.servers.begin(t, of_servers)
        resized = any(isinstance(change, Resize | AddWorkers) for change in changes)
        if resized and not self.seamless and not self.servers.under_way:
            commands += [Checkpoint(), *self.workers.restart()]
        return commands + self.servers.timer() + self._look()

    # ---- what happens ------------------------------------------------------------------------------------------------

    def then(self, event: AnyEvent) -> list[AnyCommand]:
        """The commands that follow from an event."""
        commands = self._dispatch(event)
        if event.t > self._begun_s + self.launch_s:
            self.workers.give_up()
        if not isinstance(event, Denied):
            commands += self.servers.retire_unwanted()
        return commands + self.servers.timer() + self._look()

    def _dispatch(self, event: AnyEvent) -> list[AnyCommand]:
        t, servers, switch = event.t, self.servers, self.servers.switch
        match event:
            case Arrived(grad=grad):
                return servers.carry_out(switch.end_work(t, NodeId.worker(grad.worker)))
            case Failed(worker=worker):
                return servers.carry_out(switch.end_work(t, NodeId.worker(worker)))
            case Lost():
                return self._lose(event)
            case Joined(worker=worker):
                return self.workers.join(NodeId.worker(worker))
            case ServerJoined(server=server):
                return servers.carry_out(switch.join(t, NodeId.server(server)))
            case Denied(node=name):
                return self._deny(t, NodeId.parse(name))
            case ServerLost(server=server):
                return servers.carry_out(switch.lose(t, NodeId.server(server)))
            case Restored():
                self._withheld.clear()
                self._leaving.clear()
                return self.workers.restore(event.workers) + servers.restore(t, event.servers)
            case Woke(tag=tag):
                return servers.wake(t, tag)
        return []

    def _lose(self, event: Lost) -> list[AnyCommand]:
        worker = NodeId.worker(event.worker)
        self._withheld.discard(event.worker)
        self._leaving.discard(event.worker)
        if event.restarting:
            self.workers.note_crash(worker)
        elif event.cause != "restarted":
            self.workers.lose(worker)
        return self.servers.carry_out(self.servers.switch.end_work(event.t, worker))

    def _deny(self, t: float, node: NodeId) -> list[AnyCommand]:
        """A new node does not come, or a present one stays as it is: it gets no other cores, or may not leave."""
        is_here = node in self.fleet.here
        if node.role == "server":
            return [] if is_here else self.servers.carry_out(self.servers.switch.lose(t, node))
        self._withheld |= self._leaving & {node.number}
        self._leaving.discard(node.number)
        if not is_here:
            self.workers.lose(node)
        return []

    def _look(self) -> list[AnyCommand]:
        """Whether everything that was begun has ended."""
        if not self.busy or self.workers.is_waiting or self.servers.under_way:
            return []
        granted = self.servers.granted and (self.workers.came > 0 or not self.workers.denied)
        self.busy, self.settled = False, granted
        return self.workers.end(granted)

    # ---- who computes ------------------------------------------------------------------------------------------------

    def settle(self, commands: list[AnyCommand]) -> tuple[list[AnyCommand], list[int]]:
        """The commands without Computes while no worker may begin, and workers that may compute again now.

        A retired worker computes nothing more, unless its retirement is denied.
        """
        leaving = _workers_retired(commands)
        if leaving:
            ending = [one for one in commands if isinstance(one, Compute) and one.worker in leaving]
            self._leaving |= (self._withheld & leaving) | {one.worker for one in ending}
            self._withheld -= leaving
            commands = [one for one in commands if one not in ending]
        if self.servers.switch.holds:
            self._withheld |= {one.worker for one in commands if isinstance(one, Compute)}
            return [one for one in commands if not isinstance(one, Compute)], []
        for one in commands:
            if isinstance(one, Compute):
                self.servers.switch.begin_work(NodeId.worker(one.worker))
        again, self._withheld = sorted(self._withheld), set()
        for worker in again:
            self.servers.switch.begin_work(NodeId.worker(worker))
        return commands, again


def _workers_retired(commands: Iterable[AnyCommand]) -> set[int]:
    nodes = [NodeId.parse(one.node) for one in commands if isinstance(one, Retire)]
    return {node.number for node in nodes if node.role == "worker"}
