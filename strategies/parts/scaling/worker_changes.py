"""Changes of a job's workers: launched first, and the old ones leave when the others have come (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.parts.scaling.changes import AddWorkers, Replace, Resize
from strategies.parts.scaling.fleet import Fleet
from strategies.parts.scaling.usage import Given
from strategies.protocol import Allocate, AnyCommand, Launch, NodeId, Restart, Retire


@final
class WorkerChanges:
    """Those of one decision, and who is waited for; ``came`` and ``denied`` count the workers that it launched."""

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
    def awaited(self) -> bool:
        """Whether somebody has not come yet."""
        return bool(self._requests or self._restarted)

    # ---- a decision --------------------------------------------------------------------------------------------------

    def resize(self, change: Resize) -> list[AnyCommand]:
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
        """Launch another one, for whom the old one leaves if it is still there."""
        given = Given(cores=change.cores, memory_bytes=change.memory_bytes)
        place = self.fleet.places.get(change.node)
        launch: Launch = self.fleet.request("worker", given, [place] if change.elsewhere and place else [])
        self._requests[NodeId.parse(launch.node)] = change.node
        return [launch]

    def restart(self) -> list[AnyCommand]:
        """All that stay; they are waited for. Who has crashed is being started anyway."""
        staying = [worker for worker in self.fleet.nodes("worker") if worker not in self._surplus]
        self._restarted |= set(staying)
        return [Restart(node=str(worker)) for worker in staying if worker not in self._crashed]

    def end(self, granted: bool) -> list[AnyCommand]:
        """Everything that was begun has ended: the surplus leaves, if the rest was granted."""
        leaving = [one for one in self._surplus if one in self.fleet.here] if granted else []
        self._surplus = []
        return [Retire(node=str(one)) for one in leaving]

    # ---- what happens ------------------------------------------------------------------------------------------------

    def joined(self, node: NodeId) -> list[AnyCommand]:
        """A worker is there, for the first time or again."""
        self._restarted.discard(node)
        self._crashed.discard(node)
        if node not in self._requests:
            return []
        old = self._requests.pop(node)
        self.came += 1
        return [Retire(node=str(old))] if old in self.fleet.here else []

    def crashed(self, node: NodeId) -> None:
        """A worker is lost, and the runtime starts it again."""
        self._crashed.add(node)

    def gone(self, node: NodeId) -> None:
        """A worker is lost for good, or was denied."""
        self._surplus = [one for one in self._surplus if one != node]
        self._restarted.discard(node)
        self._crashed.discard(node)
        if node in self._requests:
            del self._requests[node]
            self.denied += 1

    def restored(self, workers: Iterable[int]) -> list[AnyCommand]:
        """These are there. Nobody reports who has left meanwhile, so the others are not waited for either."""
        self._restarted.clear()
        return [command for worker in workers for command in self.joined(NodeId.worker(worker))]

    def give_up(self) -> None:
        """It has taken too long: nobody reports who came and died while all rolled back."""
        for node in list(self._requests):
            self.gone(node)
