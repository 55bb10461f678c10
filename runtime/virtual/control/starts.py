"""When tasks are there on the virtual clock: their launches, and the waits for a place before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import assert_never, final

from runtime.core.recovery import effects, inputs
from runtime.core.recovery.task import Key
from runtime.virtual.clock import MESSAGE
from runtime.virtual.control.pauses import Pauses
from runtime.virtual.control.priced import PricedRecovery
from runtime.virtual.control.versions import Versions
from runtime.virtual.tasks.iteration import WorkerModel


@final
class Starts:
    """Launches tasks; ``moved`` is called with one that starts elsewhere."""

    def __init__(
        self,
        priced: PricedRecovery,
        pauses: Pauses,
        versions: Versions,
        workers: WorkerModel,
        moved: Callable[[str], None],
    ) -> None:
        self.recovery, self.clock, self.costs, self.tell, self.drive = priced
        self.pauses, self.versions, self.workers, self.moved = pauses, versions, workers, moved
        self.released_s: dict[Key, float] = {}
        """When the plan last allowed a task to start."""

    def launch(self, t: float, key: Key, incarnation: int, cause: effects.Cause) -> None:
        """A task is ready at once if it starts with the job or had to wait for a place, else after its launch.

        A preempted job has spent its restart time already when it is resumed.
        """
        match cause:
            case "start":
                self.tell(t, inputs.Ready(key, incarnation))
            case "place" | "resumed":
                self._on_built(key, incarnation)
            case "crash":
                self._build(key, incarnation, t + self.costs.restart_s)
            case "released" | "new":
                self._build(key, incarnation, t + self.costs.launch_s)
            case _:
                assert_never(cause)

    def _build(self, key: Key, incarnation: int, ready_s: float) -> None:
        heard_s = ready_s if key.role == "server" else ready_s + self.costs.control_s
        self.clock.at(heard_s, MESSAGE, self._on_built, key, incarnation)

    def _on_built(self, key: Key, incarnation: int) -> None:
        """The late start of a lost server shows when the checkpoint has been read, see ``VirtualSupervisor``."""
        role, number = key
        if not self.recovery.tasks[key].expects(incarnation):
            return
        if role == "server":
            ready = inputs.Ready(key, incarnation)
            if self.recovery.state.holds(self.recovery.tasks[key]):  # a recovery waits for it, the coordinator does not
                self.tell(self.clock.now, ready)
            else:
                self.drive(lambda t: self.tell(t, ready))
        elif not self.pauses.starts_late(str(key), 0.0, partial(self._on_built, key, incarnation)):
            self.workers.ready(number, self.clock.now)
            self.drive(lambda t: self.tell(t, inputs.Ready(key, incarnation, self.versions.holds())))

    def wait(self, t: float, effect: effects.Wait) -> None:
        """The wait for a place, the launch and a replica's copy are one delay, for which no recovery waits.

        Live, a recovery waits for a worker that has its place and is launching.
        """
        there_s = t + effect.pending_s
        if effect.moves:
            self.moved(str(effect.key))
            if effect.key.role == "server":
                there_s = t + (effect.pending_s + self.costs.launch_s)
            else:
                there_s = t + effect.pending_s + self.costs.launch_s + self.versions.copy_s + self.costs.control_s
        free = inputs.PlaceFree(effect.key, effect.incarnation)
        self.clock.at(there_s, MESSAGE, self._there, free, effect.moves)

    def _there(self, free: inputs.PlaceFree, moves: bool) -> None:
        """The launch of a task counts from the moment at which the plan allowed it to start."""
        ready_s = self.released_s.get(free.key, -inf) + self.costs.launch_s
        if free.key.role != "server":
            ready_s += self.costs.control_s
        if moves and ready_s > self.clock.now:
            self.clock.at(ready_s, MESSAGE, self._there, free, moves)
        else:
            self.tell(self.clock.now, free)
