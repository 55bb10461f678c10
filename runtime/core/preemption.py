"""A job that gives its places back to the cluster, and continues later, perhaps elsewhere (pure).

It leaves when the update in progress is ordered, as jobs of Gandiva are suspended between two mini-batches (Xiao et
al., OSDI 2018): a synchronous job then has nothing in progress, and loses nothing. In other jobs gradients in progress
are void, and their samples return to their workers. The job waits for the update for at most ``grace_s``. It keeps one
checkpoint: parameters, optimizer and data service.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.core.course import Course
from runtime.core.dialogue import Dialogue
from runtime.core.job import Port, RecordSink
from runtime.core.node_orders import SuspendOrder
from strategies.protocol import AnyCommand, Apply, Compute, Partition, Score

TIMER = "leave:"
"""Tag of the timer that ends the wait for an update, with the number of the preemption."""
LIMIT = "limit"
BEGINNING = (Compute, Partition, Score)
"""Commands by which new work would begin."""

CarryOut = Callable[[AnyCommand], None]


class Preemption:
    """The preemption of one job. ``leave()`` stores a checkpoint and voids other work, ``dialogue`` passes commands on.

    ``asked``: it is to leave. ``due``: an update is ordered, so it leaves as soon as its strategy has answered.
    """

    def __init__(
        self, port: Port, record: RecordSink, course: Course, dialogue: Dialogue, leave: Callable[[], None]
    ) -> None:
        self.port, self.record, self.course, self.leave = port, record, course, leave
        self.due = False
        self.away_s = 0.0
        """Seconds for which it was away, over all times."""
        self._dialogue, self._carry_out = dialogue, dialogue.carry_out
        self.asked = False
        self._number = 0
        self._since_s: float | None = None
        self._timers: list[str] = []
        """The runtime's timers that have fired while the job was away."""

    @property
    def away(self) -> bool:
        """Whether it has left, and does not train again yet."""
        return self._since_s is not None

    def order(self, t: float, grace_s: float, *, works: bool) -> None:
        """The cluster takes its places; ``works``: something is in progress."""
        if self.asked or self.course.status:
            return
        self.asked = True
        self._number += 1
        self._dialogue.carry_out = self._until_it_leaves
        if self.course.halted:  # all are about to have one version, from which it can leave
            return
        if works and grace_s > 0:
            self.port.wake(t + grace_s, f"runtime:{TIMER}{self._number}")
        else:
            self.due = True

    def _until_it_leaves(self, command: AnyCommand) -> None:
        if self.due and isinstance(command, BEGINNING):
            return
        self._carry_out(command)
        self.due = self.due or isinstance(command, Apply)

    def settle(self, t: float, version: int) -> None:
        """Leave, now that the strategy has answered; not if the job is over, or rolls back first."""
        self.due = False
        if self.course.status or self.course.halted:
            return
        self.asked, self._since_s = False, t
        self._dialogue.carry_out = self._carry_out
        self.record.note(t, "Preempted", version=version)
        self.leave()
        self.port.order_node(SuspendOrder())

    def restored(self, t: float, limit_s: float, places: dict[str, str]) -> None:
        """All hold one version, perhaps after a pause; if it is to leave, it does so now."""
        self.due = self.asked
        if self._since_s is None:
            return
        pause_s, self._since_s = t - self._since_s, None
        self.away_s += pause_s
        self.record.note(t, "Resumed", pause_s=pause_s, places=places)
        timers, self._timers = self._timers, []
        for name in timers:
            self.port.wake(limit_s + self.away_s if name == LIMIT else t, f"runtime:{name}")

    def holds_back(self, t: float, name: str, limit_s: float) -> bool:
        """Whether a timer of the runtime means nothing now: until the job is back, or as pauses do not count.

        One of the wait for an update makes the job leave.
        """
        if name.startswith(TIMER):
            if self.asked and name == f"{TIMER}{self._number}" and not self.course.halted:
                self.due = True
            return True
        if self.away:
            self._timers.append(name)
            return True
        if name == LIMIT and t < limit_s + self.away_s:
            self.port.wake(limit_s + self.away_s, f"runtime:{LIMIT}")
            return True
        return False
