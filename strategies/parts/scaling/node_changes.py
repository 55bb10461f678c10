"""Changes of a job's servers, one ``Switch`` a decision, and of its workers (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, isfinite
from typing import final

from strategies.parts.nodes import is_due
from strategies.parts.scaling.changes import AddWorkers, Replace, Resize
from strategies.parts.scaling.fleet import Fleet
from strategies.parts.scaling.states import Effect, Phase
from strategies.parts.scaling.switch import Order, Switch
from strategies.parts.scaling.usage import Given
from strategies.protocol import Allocate, AnyCommand, Checkpoint, Launch, NodeId, Repartition, Restart, Retire, Wake


@final
class WorkerChanges:
    """Changes of workers by one decision, and the workers waited for; ``came`` and ``denied`` count those launched."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.came = self.denied = 0
        self._requests: dict[NodeId, NodeId | None] = {}
        """Workers on their way, and whose place each takes."""
        self._surplus: list[NodeId] = []
        """Workers that leave when the others have come."""
        self._restarted: set[NodeId] = set()
        """Workers that were restarted and are not back yet."""
        self._crashed: set[NodeId] = set()
        """Workers that the runtime is starting again."""

    @property
    def is_waiting(self) -> bool:
        """Whether a node has not come yet."""
        return bool(self._requests or self._restarted)

    # ---- a decision --------------------------------------------------------------------------------------------------

    def resize(self, change: Resize) -> list[AnyCommand]:
        """Keep nodes with the wanted resources, give other present ones so many cores, launch the rest."""
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
        return commands + self._request([wanted] * (change.count - len(keep)))

    def add(self, change: AddWorkers) -> list[AnyCommand]:
        """Launch so many more, the last ones with low priority."""
        normal = Given(cores=change.cores, memory_bytes=change.memory_bytes)
        low = Given(cores=change.cores, memory_bytes=change.memory_bytes, low_priority=True)
        return self._request([normal] * (change.count - change.low_priority) + [low] * change.low_priority)

    def _request(self, wanted: Iterable[Given]) -> list[AnyCommand]:
        launches = [self.fleet.request("worker", given) for given in wanted]
        self._requests |= {NodeId.parse(one.node): None for one in launches}
        return list(launches)

    def replace(self, change: Replace) -> list[AnyCommand]:
        """Launch another one; the old one then leaves if it is still present."""
        given = Given(cores=change.cores, memory_bytes=change.memory_bytes)
        place = self.fleet.places.get(change.node)
        launch: Launch = self.fleet.request("worker", given, [place] if change.elsewhere and place else [])
        self._requests[NodeId.parse(launch.node)] = change.node
        return [launch]

    def restart(self) -> list[AnyCommand]:
        """Restart all workers that stay, and wait for them. A crashed one is being started anyway."""
        staying = [worker for worker in self.fleet.nodes("worker") if worker not in self._surplus]
        self._restarted |= set(staying)
        return [Restart(node=str(worker)) for worker in staying if worker not in self._crashed]

    def end(self, granted: bool) -> list[AnyCommand]:
        """Everything that was begun has ended: the surplus leaves, if the rest was granted."""
        leaving = [one for one in self._surplus if one in self.fleet.here] if granted else []
        self._surplus = []
        return [Retire(node=str(one)) for one in leaving]

    # ---- what happens ------------------------------------------------------------------------------------------------

    def join(self, node: NodeId) -> list[AnyCommand]:
        """A worker is there, for the first time or again."""
        self._restarted.discard(node)
        self._crashed.discard(node)
        if node not in self._requests:
            return []
        old = self._requests.pop(node)
        self.came += 1
        return [Retire(node=str(old))] if old in self.fleet.here else []

    def note_crash(self, node: NodeId) -> None:
        """A worker is lost, and the runtime starts it again."""
        self._crashed.add(node)

    def lose(self, node: NodeId) -> None:
        """A worker is lost for good, or was denied."""
        self._surplus = [one for one in self._surplus if one != node]
        self._restarted.discard(node)
        self._crashed.discard(node)
        if node in self._requests:
            del self._requests[node]
            self.denied += 1

    def restore(self, workers: Iterable[int]) -> list[AnyCommand]:
        """These are there. Nodes that left meanwhile are not reported, so the others are not waited for either."""
        self._restarted.clear()
        return [command for worker in workers for command in self.join(NodeId.worker(worker))]

    def give_up(self) -> None:
        """It has taken too long: nodes that came and died while all rolled back are not reported."""
        for node in list(self._requests):
            self.lose(node)


TIMER = "switch"
WITHOUT_PARAMETERS = frozenset({Phase.MOVING, Phase.DOWN, Phase.DOWN_SWITCHING, Phase.DOWN_ABANDONED})
"""Phases in which commands are void."""


@final
class ServerChanges:
    """Carries the orders of a ``switch`` to other servers out.

    ``restart_workers`` answers with what restarts all workers. ``under_way``: whether a switch was begun and has not
    ended; ``granted``: whether the last one came to its end.
    """

    def __init__(self, fleet: Fleet, switch: Switch, restart_workers: Callable[[], list[AnyCommand]]) -> None:
        self.fleet, self.switch, self.restart_workers = fleet, switch, restart_workers
        self.under_way, self.granted = False, True
        self._order, self._wanted = sorted(switch.servers), sorted(switch.servers)
        """Servers in the order of the vector: that hold it, and that will."""
        self._unwanted: set[NodeId] = set()
        """New servers of an abandoned switch. Others of the same request may be denied, too, which is reported later:
        so they are retired after the next event other than a denial."""
        self._launches: list[Launch] = []
        self._due_s = inf

    # ---- a decision --------------------------------------------------------------------------------------------------

    def begin(self, t: float, changes: Iterable[Resize | Replace]) -> list[AnyCommand]:
        """Switch to the servers that these changes of one decision ask for; nothing if they are the present servers."""
        self.granted = True
        keep, new = set(self.switch.servers), list[tuple[Given, NodeId | None]]()
        elsewhere: list[NodeId] = []
        for change in changes:
            if isinstance(change, Resize):
                keep, wanted = self._resize(change)
                new += [(given, None) for given in wanted]
            else:
                keep.discard(change.node)
                new.append((Given(cores=change.cores, memory_bytes=change.memory_bytes), change.node))
                elsewhere += [change.node] if change.elsewhere else []
        return self._switch_to(t, keep, new, elsewhere) if new or keep != self.switch.servers else []

    def _resize(self, change: Resize) -> tuple[set[NodeId], list[Given]]:
        wanted = Given(cores=change.cores, memory_bytes=change.memory_bytes)
        alike = [server for server in sorted(self.switch.servers) if self.fleet.given.get(server) == wanted]
        keep = alike[: change.count]
        return set(keep), [wanted] * (change.count - len(keep))

    def _switch_to(
        self, t: float, keep: set[NodeId], new: Sequence[tuple[Given, NodeId | None]], elsewhere: Sequence[NodeId]
    ) -> list[AnyCommand]:
        """A new server gets the place in the vector of the one it replaces, so that little moves; a hot part stays."""
        not_on = [place for node in elsewhere if (place := self.fleet.places.get(node)) is not None]
        self._launches = [self.fleet.request("server", given, not_on) for given, _ in new]
        launched = [NodeId.parse(one.node) for one in self._launches]
        takes = {old: one for one, (_, old) in zip(launched, new, strict=True) if old is not None}
        order = [takes.get(one, one) for one in self._order]
        self._wanted = [one for one in order if one in keep or one in launched]
        self._wanted += [one for one in launched if one not in self._wanted]
        self.under_way = True
        return self.carry_out(self.switch.ask(t, keep, launched))

    # ---- what happens ------------------------------------------------------------------------------------------------

    def restore(self, t: float, servers: Iterable[int]) -> list[AnyCommand]:
        """These hold the parameters, in this order."""
        self._order = [NodeId.server(server) for server in servers]
        return self.carry_out(self.switch.restore(t, self._order))

    def wake(self, t: float, tag: str) -> list[AnyCommand]:
        """A timer fired, perhaps the switch's."""
        return self.carry_out(self.switch.wake(t)) if tag == TIMER and is_due(t, self._due_s) else []

    def timer(self) -> list[AnyCommand]:
        """The switch is to be woken at another time than before."""
        if self.switch.due_s == self._due_s:
            return []
        self._due_s = self.switch.due_s
        return [Wake(at_s=self._due_s, tag=TIMER)] if isfinite(self._due_s) else []

    def retire_unwanted(self) -> list[AnyCommand]:
        """New servers of an abandoned switch leave, if that can be ordered now."""
        if self.switch.phase in WITHOUT_PARAMETERS:
            return []
        commands = self._retire(sorted(self._unwanted))
        self._unwanted.clear()
        return commands

    # ---- orders of the switch ----------------------------------------------------------------------------------------

    def carry_out(self, orders: Iterable[Order]) -> list[AnyCommand]:
        """The commands for these orders of the switch."""
        commands: list[AnyCommand] = []
        for effect, nodes in orders:
            match effect:
                case Effect.LAUNCH:
                    commands += self._launches
                case Effect.CHECKPOINT if not self.switch.seamless:
                    commands.append(Checkpoint())
                case Effect.RESTART_WORKERS:
                    commands += self.restart_workers()
                case Effect.MOVE:
                    commands.append(Repartition(servers=tuple(node.number for node in self._wanted)))
                case Effect.RETIRE_OLD:
                    commands += self._retire(nodes)
                case Effect.RETIRE_NEW:
                    self._unwanted |= set(nodes)
                case Effect.FINISHED | Effect.ABANDONED:
                    self.under_way, self.granted = False, effect == Effect.FINISHED
        return commands

    def _retire(self, nodes: Iterable[NodeId]) -> list[AnyCommand]:
        retired = [node for node in nodes if node in self.fleet.given]
        for node in retired:
            self.fleet.leave(node)
        return [Retire(node=str(node)) for node in retired]
