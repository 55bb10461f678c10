"""Static x-order: an update of every x gradients, between ASP and BSP, and its gate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from reading.ranges import Checked, PositiveInt
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates.base import NOTHING, Verdict, by_worker
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class ExactlyGate(Checked):
    """A worker waits for the update that its gradient is part of; nothing is ever dropped.

    If fewer than x gradients are waiting or in progress, those suffice. x = N is ``AllGate``, x = 1 ``EachGate``.

    Attributes:
        x: gradients per update, from 1 to the number of workers.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False

    x: PositiveInt = 2

    def validate(self, num_workers: int) -> None:
        if self.x > num_workers:
            raise ValueError(f"x={self.x}: must be at most the number of workers ({num_workers}), which is BSP")

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.members = set(workers)
        self.computing = set(self.members)
        self.lost_work: set[int] = set()
        self.buffer: list[Grad] = []
        return tuple(sorted(self.members))

    def arrived(self, grad: Grad) -> Verdict:
        """Buffer the gradient; the x-th makes the update."""
        self.computing.discard(grad.worker)
        self.buffer.append(grad)
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """A worker that restarts can still deliver; without one that left, fewer gradients may suffice."""
        if restarting:
            self.lost_work |= self.computing & {worker}
            return NOTHING
        for crowd in (self.members, self.computing, self.lost_work):
            crowd.discard(worker)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A new worker computes at once; a returning one repeats the work that it lost, if any."""
        if worker in self.members and worker not in self.lost_work:
            return NOTHING
        self.members.add(worker)
        self.computing.add(worker)
        self.lost_work.discard(worker)
        return Verdict(go=(worker,))

    def _test(self) -> Verdict:
        """An event adds at most one gradient or lowers the need by one, so an update always takes the whole buffer."""
        needed = min(self.x, len(self.buffer) + len(self.computing))
        if not self.buffer or len(self.buffer) < needed:
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        go = self.members & {grad.worker for grad in update} - self.computing
        self.computing |= go
        return Verdict(apply=update, go=tuple(sorted(go)))

    def log_state(self) -> dict[str, float | int | str]:
        return {"arrived": len(self.buffer)}


@final
@dataclass(kw_only=True)
class StaticX(Composition):
    """The parameters are updated with the mean of every ``x`` gradients that arrive, from any workers.

    Source: STAR, section IV-B (static-x-order). Decided at ``Arrived``: the x-th gradient since the last update makes
    the next, and the workers whose gradients are in it continue. A late gradient becomes part of the next update and is
    never dropped, and a worker whose gradient waits does not compute. The learning rate is scaled by the share of the
    global batch, x / N. With ``x`` the number of workers it is BSP, with 1 ASP, event for event.

    Where the paper is silent: when fewer than ``x`` gradients can still arrive (workers have left, the data of an epoch
    is used up), those make the update.

    Attributes:
        x: gradients per update, from 1 to the number of workers.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    x: int = 2
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def compose(self) -> Parts:
        return self.make(Parts, gate=self.make(ExactlyGate))
