"""Gate ``ring``: the update of a ring of workers waits a while for the children of its members (STAR, LGC-AR)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from reading.ranges import NonNegativeInt, check_settings
from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.protocol import AnyCommand, AnyEvent, Arrived, Grad, Wake, Woke

TAG = "children"
TOO_EARLY_S = 1e-3
"""Seconds that a timer may fire early: a clock may round."""


@final
@dataclass(kw_only=True)
class RingGate:
    """An update is one of all members of the ring, with what their children have delivered by then.

    A parent waits for its children ``wait_s`` after its own gradient; the ring starts when the last member waits no
    longer, and a child that has delivered by then is included, whether or not its own parent still waited. A gradient
    that comes later is included in the next update if it is at most ``max_delay_versions`` late, else dropped. A child
    begins again with the update after its gradient has arrived.

    ``wanted`` are the workers to be children, slowest first, and ``wait_s`` the parents' patience: a schedule sets
    both. At first all are in the ring. Roles change with updates, one worker at a time: one that leaves the ring has
    delivered its last gradient there, and none of its children still computes; an entering one has delivered. A new
    child gets the parent with the fewest children, of several the lowest; all links count as equally fast.

    Attributes:
        max_delay_versions: updates by which a child's gradient may be late and still count.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = True
    attaches: ClassVar[bool] = True

    max_delay_versions: NonNegativeInt = 1

    def __post_init__(self) -> None:
        """All in the ring, and no child to wait for; a schedule changes that."""
        check_settings(self)
        self.wanted: tuple[int, ...] = ()
        self.wait_s = 0.0
        self.now_s = 0.0

    def observe_event(self, event: AnyEvent) -> None:
        self.now_s = event.t

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster, self.version = Roster(workers), version
        self.parents: dict[int, int] = {}
        self.computing = set(workers)
        self.ready_s: dict[int, float] = {}
        self.timers_s: dict[int, float] = {}
        """When the last timer of a parent fires, for this update."""
        self.buffer: list[Grad] = []
        self.idle: set[int] = set()
        return self.roster.all()

    @property
    def ring(self) -> set[int]:
        """The workers that sum the next update."""
        return self.roster.members - self.parents.keys()

    @property
    def formed(self) -> bool:
        """Whether exactly the wanted members are outside of the ring; until then some of them compute."""
        return self.parents.keys() == self.roster.members.intersection(self.wanted)

    # ---- events -----------------------------------------------------------------------------------------------------

    def arrived(self, grad: Grad) -> Verdict:
        """Drop what is too late; buffer anything else, and update if that was the last to wait for."""
        self.computing.discard(grad.worker)
        if grad.samples and self.version - grad.version > self.max_delay_versions:
            self.idle.add(grad.worker)
            return Verdict(drop=(grad,))
        self.buffer.append(grad)
        self.ready_s[grad.worker] = self.now_s
        return self._test()

    def then(self, event: AnyEvent) -> Sequence[Verdict | AnyCommand]:
        """Update when a parent has waited long enough, or for a child that was too late; set timers for parents."""
        if not isinstance(event, Arrived | Woke):
            return ()
        if (verdict := self._test()) != NOTHING:
            return (verdict,)
        return self._timers() if self.wait_s else ()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Without servers a loss voids everything until all begin again, unless the worker had not entered yet."""
        if not self.roster.lose(worker, restarting, self.computing):
            return NOTHING
        self.computing.discard(worker)
        self.parents.pop(worker, None)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member repeats the work that it lost; a new one enters with the next update."""
        if not self.roster.admits(worker):
            return NOTHING
        self.computing.add(worker)
        return Verdict(go=(worker,))

    # ---- an update --------------------------------------------------------------------------------------------------

    def _waits(self, parent: int) -> bool:
        """Whether a member of the ring, which is ready, still waits for a child."""
        missing = any(self.parents[child] == parent for child in self.parents.keys() & self.computing)
        return missing and self.now_s < self.ready_s.get(parent, 0.0) + self.wait_s - TOO_EARLY_S

    def _timers(self) -> list[AnyCommand]:
        """For parents whose wait ends at another time than their last timer: a schedule may change their patience."""
        found: list[AnyCommand] = []
        for parent in sorted(self.ready_s.keys() & self.parents.values()):
            due_s = self.ready_s[parent] + self.wait_s
            if self._waits(parent) and self.timers_s.get(parent) != due_s:
                self.timers_s[parent] = due_s
                found.append(Wake(at_s=due_s, tag=TAG))
        return found

    def _test(self) -> Verdict:
        ring = self.ring
        if ring & self.computing or not (self.buffer or self.roster.deserted):
            return NOTHING
        if self.wait_s and any(self._waits(parent) for parent in ring):
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        go = {grad.worker for grad in update} | self.idle | self.roster.enter()
        if any(grad.samples for grad in update):
            self.version += 1
            self._reform()
        self.idle, self.ready_s, self.timers_s = set(), {}, {}
        go = (go & self.roster.members) - self.computing
        self.computing |= go
        children = tuple(sorted(self.parents.items()))
        return Verdict(apply=update, go=tuple(sorted(go)), opens=not update, children=children)

    def _reform(self) -> None:
        """Come as close to ``wanted`` as the workers that compute allow."""
        members, before = self.roster.members, self.parents
        after = {child: parent for child, parent in before.items() if child in self.computing}
        needed = set(after.values())
        wanted = [worker for worker in self.wanted if worker in members and worker not in self.computing | needed]
        stays = members - before.keys() - after.keys()
        for worker in wanted[: max(0, len(self.wanted) - len(after))]:
            if stays == {worker}:  # no other worker has the parameters
                continue
            stays.discard(worker)
            after[worker] = before.get(worker, -1)
        count = dict.fromkeys(sorted(stays), 0)
        for parent in after.values():
            if parent in count:
                count[parent] += 1
        for child in sorted(after):
            if after[child] not in count:
                after[child] = min(count, key=lambda parent: (count[parent], parent))
                count[after[child]] += 1
        self.parents = after

    def log_state(self) -> dict[str, float | int | str]:
        return {"ring": len(self.ring), "arrived": len(self.buffer), "wait_s": self.wait_s}
