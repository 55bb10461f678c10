"""When tasks are there on the virtual clock: their launches, and the waits for a place before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never, final

from runtime.core.recovery import effects, inputs
from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.task import Key
from runtime.virtual.clock import MESSAGE, Clock
from runtime.virtual.control.standstill import Standstill
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.iteration import WorkerModel

Tell = Callable[[float, inputs.AnyInput], None]


@final
class Starts:
    """``tell`` passes an input to the recovery, ``drive`` when the coordinator is free, ``moved`` names a task.

    ``holds()`` is the version that a replica has when it is there, ``copy_s`` how long it takes to copy that.
    """

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        recovery: Recovery,
        standstill: Standstill,
        workers: WorkerModel,
        *,
        copy_s: float,
        holds: Callable[[], int],
        tell: Tell,
        drive: Callable[[Callable[[float], None]], None],
        moved: Callable[[str], None],
    ) -> None:
        self.clock, self.costs, self.recovery, self.workers = clock, costs, recovery, workers
        self.standstill, self.copy_s, self.holds = standstill, copy_s, holds
        self.tell, self.drive, self.moved = tell, drive, moved

    def launch(self, t: float, key: Key, incarnation: int, cause: effects.Cause) -> None:
        """A task is ready at once if it starts with the job or had to wait for a place, else after its launch.

        What a preempted job needs until it computes again has passed when it is resumed.
        """
        match cause:
            case "start":
                self.tell(t, inputs.Ready(key, incarnation))
            case "place" | "resumed":
                self._built(key, incarnation)
            case "crash":
                self._build(key, incarnation, t + self.costs.restart_s)
            case "released" | "new":
                self._build(key, incarnation, t + self.costs.launch_s)
            case _:
                assert_never(cause)

    def _build(self, key: Key, incarnation: int, ready_s: float) -> None:
        heard_s = ready_s if key.role == "server" else ready_s + self.costs.control_s
        self.clock.at(heard_s, MESSAGE, self._built, key, incarnation)

    def _built(self, key: Key, incarnation: int) -> None:
        """The late start of a lost server shows when the checkpoint has been read, see ``VirtualSupervisor``."""
        role, number = key
        if not self.recovery.tasks[key].expects(incarnation):
            return
        if role == "server":
            self.tell(self.clock.now, inputs.Ready(key, incarnation))
        elif not self.standstill.starts_late(str(key), 0.0, partial(self._built, key, incarnation)):
            self.workers.ready(number, self.clock.now)
            self.drive(lambda t: self.tell(t, inputs.Ready(key, incarnation, self.holds())))

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
                there_s = t + effect.pending_s + self.costs.launch_s + self.copy_s + self.costs.control_s
        free = inputs.PlaceFree(effect.key, effect.incarnation)
        self.clock.at(there_s, MESSAGE, lambda: self.tell(self.clock.now, free))
