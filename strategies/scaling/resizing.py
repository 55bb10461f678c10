"""Carries changes of a job's nodes out, one decision at a time (pure).

Workers come and go during training: whoever takes another's place is launched first, and the old one leaves when it
has joined. Servers change by one :class:`strategies.scaling.switching.switch.Switch` for all of a decision. If it is
not seamless, another number of workers restarts the present ones, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite
from typing import final

from strategies.checks import check_number
from strategies.nodes.timers import is_due
from strategies.protocol import (
    Allocate,
    AnyCommand,
    AnyEvent,
    Arrived,
    Checkpoint,
    Compute,
    Denied,
    Failed,
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
    Wake,
    Woke,
)
from strategies.scaling.brain.changes import AddWorkers, Change, Replace, Resize, StopWaiting
from strategies.scaling.brain.usage import Given
from strategies.scaling.fleet import Fleet
from strategies.scaling.switching.states import Effect, Phase
from strategies.scaling.switching.switch import Order, Switch

TIMER = "switch"
WITHOUT_PARAMETERS = frozenset({Phase.MOVING, Phase.DOWN, Phase.DOWN_SWITCHING, Phase.DOWN_ABANDONED})
"""Phases in which commands are void."""


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
        check_number("launch_s", launch_s, above=0.0)
        check_number("drain_s", drain_s, above=0.0)
        self.fleet, self.seamless, self.launch_s, self.drain_s = fleet, seamless, launch_s, drain_s

    def start(self, started: Started) -> None:
        """Nothing is under way."""
        servers = [NodeId.server(number) for number in range(started.num_servers)]
        self.switch = Switch(servers, self.seamless, self.launch_s, self.drain_s)
        self._order, self._wanted = servers, servers
        """Servers in the order of the vector: that hold it, and that will."""
        self.settled: bool | None = None
        self.busy = False
        self._requests: dict[NodeId, NodeId | None] = {}
        """Workers on their way, and whose place each takes."""
        self._begun_s = 0.0
        self._surplus: list[NodeId] = []
        """Workers that leave when the others have come."""
        self._restarted: set[NodeId] = set()
        """Workers that were restarted and are not back yet."""
        self._unwanted: set[NodeId] = set()
        """New servers of an abandoned switch. Others of the same request may be denied, too, which is reported later:
        so they are retired after the next event that is no denial."""
        self._crashed: set[NodeId] = set()
        """Workers that the runtime is starting again."""
        self._came = self._denied = 0
        self._switching, self._switched, self._granted = False, True, True
        self._launches: list[Launch] = []
        self._withheld: set[int] = set()
        self._leaving: set[int] = set()
        """Workers that got no Compute because they are retired."""
        self._due_s = inf

    # ---- a decision --------------------------------------------------------------------------------------------------

    def begin(self, t: float, changes: Sequence[Change]) -> list[AnyCommand]:
        """Begin to carry these out; ``settled`` follows, at once if there is nothing to wait for."""
        self.busy, self.settled, self._begun_s = True, None, t
        self._came = self._denied = 0
        self._switching, self._switched, self._granted = False, True, True
        commands: list[AnyCommand] = []
        keep, new = set(self.switch.servers), list[tuple[Given, NodeId | None]]()
        elsewhere: list[NodeId] = []
        for change in changes:
            match change:
                case Resize(role="server"):
                    keep, wanted = self._servers_of(change)
                    new += [(given, None) for given in wanted]
                case Resize():
                    commands += self._resize_workers(change)
                case AddWorkers():
                    commands += self._add_workers(change)
                case Replace(node=node) if node.role == "server":
                    keep.discard(node)
                    new.append((Given(cores=change.cores, memory_bytes=change.memory_bytes), node))
                    elsewhere += [node] if change.elsewhere else []
                case Replace():
                    commands += self._replace_worker(change)
                case StopWaiting(node=node):
                    commands += [Restart(node=str(node))] if node in self.fleet.here else []
        if new or keep != self.switch.servers:
            commands += self._switch_to(t, keep, new, elsewhere)
        elif not self.seamless and any(isinstance(change, Resize | AddWorkers) for change in changes):
            commands += [Checkpoint(), *self._restart_workers()]
        return commands + self._timer() + self._look()

    def replace(self, change: Replace) -> list[AnyCommand]:
        """Launch another worker for one that is gone, in addition to what is under way."""
        return self._replace_worker(change)

    def _servers_of(self, change: Resize) -> tuple[set[NodeId], list[Given]]:
        wanted = Given(cores=change.cores, memory_bytes=change.memory_bytes)
        alike = [server for server in sorted(self.switch.servers) if self.fleet.given.get(server) == wanted]
        keep = alike[: change.count]
        return set(keep), [wanted] * (change.count - len(keep))

    def _switch_to(
        self, t: float, keep: set[NodeId], new: Sequence[tuple[Given, NodeId | None]], elsewhere: Sequence[NodeId]
    ) -> list[AnyCommand]:
        """Who replaces a server gets its place in the vector, so that little moves, and a hot part stays with it."""
        not_on = [place for node in elsewhere if (place := self.fleet.places.get(node)) is not None]
        self._launches = [self.fleet.request("server", given, not_on) for given, _ in new]
        launched = [NodeId.parse(one.node) for one in self._launches]
        takes = {old: one for one, (_, old) in zip(launched, new, strict=True) if old is not None}
        order = [takes.get(one, one) for one in self._order]
        self._wanted = [one for one in order if one in keep or one in launched]
        self._wanted += [one for one in launched if one not in self._wanted]
        self._switching, self._switched = True, False
        return self._carried_out(self.switch.ask(t, keep, launched))

    def _resize_workers(self, change: Resize) -> list[AnyCommand]:
        """Keep who has what is wanted, give other present ones so many cores, launch the rest."""
        wanted = Given(cores=change.cores, memory_bytes=change.memory_bytes)
        workers = self.fleet.nodes("worker")
        keep = [one for one in workers if self.fleet.given[one] == wanted][: change.count]
        commands: list[AnyCommand] = []
        for one in workers:
            if (
                len(keep) < change.count
                and one not in keep
                and self.fleet.given[one].memory_bytes >= wanted.memory_bytes
            ):
                self.fleet.reallocate(one, wanted.cores)
                keep.append(one)
                commands.append(Allocate(node=str(one), cpu_cores=self.fleet.real_cores(wanted.cores)))
        self._surplus += [one for one in workers if one not in keep]
        return commands + self._request_workers([wanted] * (change.count - len(keep)))

    def _add_workers(self, change: AddWorkers) -> list[AnyCommand]:
        normal = Given(cores=change.cores, memory_bytes=change.memory_bytes)
        low = Given(cores=change.cores, memory_bytes=change.memory_bytes, low_priority=True)
        return self._request_workers([normal] * (change.count - change.low_priority) + [low] * change.low_priority)

    def _request_workers(self, wanted: Iterable[Given]) -> list[AnyCommand]:
        launches = [self.fleet.request("worker", given) for given in wanted]
        self._requests |= {NodeId.parse(one.node): None for one in launches}
        return list(launches)

    def _replace_worker(self, change: Replace) -> list[AnyCommand]:
        given = Given(cores=change.cores, memory_bytes=change.memory_bytes)
        place = self.fleet.places.get(change.node)
        launch = self.fleet.request("worker", given, [place] if change.elsewhere and place else [])
        self._requests[NodeId.parse(launch.node)] = change.node
        return [launch]

    def _retire(self, nodes: Iterable[NodeId]) -> list[AnyCommand]:
        retired = [node for node in nodes if node in self.fleet.given]
        for node in retired:
            self.fleet.leave(node)
        return [Retire(node=str(node)) for node in retired]

    def _restart_workers(self) -> list[AnyCommand]:
        """All that stay; the decision is settled when they are back. Who has crashed is being started anyway."""
        staying = [worker for worker in self.fleet.nodes("worker") if worker not in self._surplus]
        self._restarted |= set(staying)
        return [Restart(node=str(worker)) for worker in staying if worker not in self._crashed]

    # ---- what happens ------------------------------------------------------------------------------------------------

    def then(self, event: AnyEvent) -> list[AnyCommand]:
        """What follows from an event."""
        commands = self._happened(event)
        if event.t > self._begun_s + self.launch_s:  # nobody reports who came and died while all rolled back
            for node in list(self._requests):
                self._is_gone(node)
        if not isinstance(event, Denied) and self.switch.phase not in WITHOUT_PARAMETERS:
            commands += self._retire(sorted(self._unwanted))
            self._unwanted.clear()
        return commands + self._timer() + self._look()

    def _timer(self) -> list[AnyCommand]:
        """The switch is to be woken at another time than before."""
        if self.switch.due_s == self._due_s:
            return []
        self._due_s = self.switch.due_s
        return [Wake(at_s=self._due_s, tag=TIMER)] if isfinite(self._due_s) else []

    def _happened(self, event: AnyEvent) -> list[AnyCommand]:  # noqa: C901  (a table)
        t, switch = event.t, self.switch
        match event:
            case Arrived(grad=grad):
                return self._carried_out(switch.ended(t, NodeId.worker(grad.worker)))
            case Failed(worker=worker):
                return self._carried_out(switch.ended(t, NodeId.worker(worker)))
            case Lost(worker=worker, restarting=restarting):
                self._withheld.discard(worker)
                self._leaving.discard(worker)
                if restarting:
                    self._crashed.add(NodeId.worker(worker))
                elif event.cause != "restarted":
                    self._is_gone(NodeId.worker(worker))
                return self._carried_out(switch.ended(t, NodeId.worker(worker)))
            case Joined(worker=worker):
                return self._joined(NodeId.worker(worker))
            case ServerJoined(server=server):
                return self._carried_out(switch.joined(t, NodeId.server(server)))
            case Denied(node=name):
                node = NodeId.parse(name)
                if node.role == "server":
                    return self._carried_out(switch.gone(t, node))
                self._withheld |= self._leaving & {node.number}
                self._leaving.discard(node.number)
                self._is_gone(node)
            case ServerLost(server=server):
                return self._carried_out(switch.gone(t, NodeId.server(server)))
            case Restored():
                return self._restored(event)
            case Woke(tag=tag) if tag == TIMER and is_due(t, self._due_s):
                return self._carried_out(switch.woke(t))
        return []

    def _joined(self, node: NodeId) -> list[AnyCommand]:
        self._restarted.discard(node)
        self._crashed.discard(node)
        if node not in self._requests:
            return []
        old = self._requests.pop(node)
        self._came += 1
        return [Retire(node=str(old))] if old in self.fleet.here else []

    def _is_gone(self, node: NodeId) -> None:
        self._surplus = [one for one in self._surplus if one != node]
        self._restarted.discard(node)
        self._crashed.discard(node)
        if node in self._requests:
            del self._requests[node]
            self._denied += 1

    def _restored(self, event: Restored) -> list[AnyCommand]:
        self._withheld.clear()
        self._leaving.clear()
        self._restarted.clear()  # nobody reports who has left meanwhile, so the others are not waited for either
        commands = [command for worker in event.workers for command in self._joined(NodeId.worker(worker))]
        self._order = servers = [NodeId.server(server) for server in event.servers]
        return commands + self._carried_out(self.switch.restored(event.t, servers))

    def _look(self) -> list[AnyCommand]:
        """Whether everything that was begun has ended."""
        if not self.busy or self._requests or self._restarted or (self._switching and not self._switched):
            return []
        granted = self._granted and (self._came > 0 or not self._denied)
        leaving = [one for one in self._surplus if one in self.fleet.here] if granted else []
        self._surplus = []
        self.busy, self.settled = False, granted
        return [Retire(node=str(one)) for one in leaving]

    # ---- orders of the switch ----------------------------------------------------------------------------------------

    def _carried_out(self, orders: Iterable[Order]) -> list[AnyCommand]:
        commands: list[AnyCommand] = []
        for effect, nodes in orders:
            match effect:
                case Effect.LAUNCH:
                    commands += self._launches
                case Effect.CHECKPOINT if not self.seamless:
                    commands.append(Checkpoint())
                case Effect.RESTART_WORKERS:
                    commands += self._restart_workers()
                case Effect.MOVE:
                    commands.append(Repartition(servers=tuple(node.number for node in self._wanted)))
                case Effect.RETIRE_OLD:
                    commands += self._retire(nodes)
                case Effect.RETIRE_NEW:
                    self._unwanted |= set(nodes)
                case Effect.FINISHED | Effect.ABANDONED:
                    self._switched, self._granted = True, effect == Effect.FINISHED
        return commands

    def settle(self, commands: list[AnyCommand]) -> tuple[list[AnyCommand], list[int]]:
        """The commands without Computes while nobody may begin, and workers that may compute again now.

        Who is retired computes nothing more, unless that is denied.
        """
        leaving = _workers_retired(commands)
        if leaving:
            ending = [one for one in commands if isinstance(one, Compute) and one.worker in leaving]
            self._leaving |= (self._withheld & leaving) | {one.worker for one in ending}
            self._withheld -= leaving
            commands = [one for one in commands if one not in ending]
        if self.switch.holds:
            self._withheld |= {one.worker for one in commands if isinstance(one, Compute)}
            return [one for one in commands if not isinstance(one, Compute)], []
        for one in commands:
            if isinstance(one, Compute):
                self.switch.began(NodeId.worker(one.worker))
        again, self._withheld = sorted(self._withheld), set()
        for worker in again:
            self.switch.began(NodeId.worker(worker))
        return commands, again


def _workers_retired(commands: Iterable[AnyCommand]) -> set[int]:
    nodes = [NodeId.parse(one.node) for one in commands if isinstance(one, Retire)]
    return {node.number for node in nodes if node.role == "worker"}
