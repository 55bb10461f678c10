"""The gate of decoupled DiLoCo: an outer step takes the workers that are there, and the others go on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from reading.ranges import Bool, NonNegativeFloat, PositiveInt
from strategies.parts.gates.alone import OuterSettings
from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.parts.gates.meanwhile import MeanwhileGate
from strategies.parts.gates.quorum import check_most
from strategies.protocol import AnyEvent, Arrived, Command, Grad, Lost, StepAlone, Wake, Woke


@final
@dataclass(kw_only=True)
class DecoupledGate(OuterSettings, MeanwhileGate):
    """``period`` own steps, then a worker waits; ``quorum`` workers that wait make an update ``grace_s`` later.

    All that wait by then are in it, and continue from the common parameters. Others go on with their own, and their
    moves are in the update for which they wait. ``buffer`` has the gradients of every worker since its last update,
    ``waiting`` are the workers that wait; one that finds no more data waits, too. If all wait, or nobody else can come,
    there is no grace. New workers enter with the next update.

    With ``dynamic_steps`` a worker makes as many steps as it can while the fastest makes ``period``, by the mean times
    of their last rounds (``step_s``). With ``momentum_every`` the outer optimizer applies momentum with every so many
    updates alone.
    """

    needs: ClassVar[frozenset[type[Command]]] = frozenset({StepAlone, Wake})

    period: PositiveInt = 32
    quorum: PositiveInt = 1
    grace_s: NonNegativeFloat = 0.0
    dynamic_steps: Bool = False
    momentum_every: PositiveInt | None = None

    def __post_init__(self) -> None:
        self.check_outer()
        self.spent_s: dict[int, float] = {}
        self.step_s: dict[int, float] = {}

    def validate(self, num_workers: int) -> None:
        check_most("quorum", self.quorum, num_workers)

    @property
    def outer(self) -> Mapping[str, Any]:
        if self.momentum_every is None:
            return self.outer_optimizer
        return {"lr": self.outer_lr, "momentum": self.outer_momentum, "every": self.momentum_every}

    def observe_event(self, event: AnyEvent) -> None:
        self.now_s = event.t
        if isinstance(event, Arrived) and event.grad.samples:
            worker = event.grad.worker
            self.spent_s[worker] = self.spent_s.get(worker, 0.0) + event.timings.own_s
        elif isinstance(event, Lost):
            self.step_s.pop(event.worker, None)

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster = Roster(workers)
        self.buffer: dict[int, list[Grad]] = {}
        self.spent_s.clear()
        self.waiting: set[int] = set()
        self.due_s: float | None = None
        self.asked_s: float | None = None
        return self.roster.all()

    # ---- events ------------------------------------------------------------------------------------------------------

    def arrived(self, grad: Grad) -> Verdict:
        """Step by the gradient; wait after the last one of the period."""
        worker, step = grad.worker, tuple[Grad, ...]()
        if grad.samples:
            steps = self.buffer.setdefault(worker, [])
            steps.append(grad)
            step = (grad,)
            if len(steps) < self._steps(worker):
                return Verdict(step=step, go=(worker,))
        self.waiting.add(worker)
        return self._test(step)

    def _steps(self, worker: int) -> int:
        """The worker's period: of the fastest worker all, of others as many steps as they make in the same time."""
        own_s = self.step_s.get(worker)
        if not self.dynamic_steps or not own_s:
            return self.period
        return max(1, int(self.period * min(self.step_s.values()) / own_s))

    def then(self, event: AnyEvent) -> Sequence[Verdict | Command]:
        """Update if the grace is over; else a timer for that time, if it has none yet."""
        if self.due_s is None:
            return ()
        if self.now_s >= self.due_s:
            verdict = self._test()
            return () if verdict == NOTHING else (verdict,)
        if self.asked_s == self.due_s and not isinstance(event, Woke):  # again if it fired early: a clock may round
            return ()
        self.asked_s = self.due_s
        return (Wake(at_s=self.due_s, tag="grace"),)

    def _test(self, step: tuple[Grad, ...] = ()) -> Verdict:
        everyone = self.waiting >= self.roster.members
        if not everyone:
            if len(self.waiting) < self.quorum:
                return Verdict(step=step)
            if self.due_s is None:
                self.due_s = self.now_s + self.grace_s
            if self.now_s < self.due_s:
                return Verdict(step=step)
        for worker in self.waiting & self.buffer.keys():
            self.step_s[worker] = self.spent_s.pop(worker, 0.0) / len(self.buffer[worker])
        update = by_worker(grad for worker in self.waiting for grad in self.buffer.pop(worker, ()))
        self.due_s = None
        return Verdict(step=step, apply=update, go=self._release(), opens=not update, outer=True)

    def log_state(self) -> dict[str, float | int | str]:
        return {"waiting": len(self.waiting), "steps_alone": sum(map(len, self.buffer.values()))}
