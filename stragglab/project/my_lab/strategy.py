"""A strategy: a gate that waits for most workers, and now and then for all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from stragglab import Composition, Grad, Parts
from stragglab.strategies.gates.base import NOTHING, Verdict, by_worker
from stragglab.strategies.gates.roster import Roster


@dataclass(kw_only=True)
class MostGate:
    """An update needs the gradients of all workers but ``spare``; every ``every``-th one needs all.

    A gradient that comes too late is part of the next update. Its worker is not interrupted.
    """

    rounds: ClassVar[bool] = False  # updates are not of all workers together
    drops: ClassVar[bool] = False  # and no gradient is dropped

    spare: int = 1
    every: int = 3

    def __post_init__(self) -> None:
        for name, least in (("spare", 0), ("every", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name}={value}: must be a whole number, {least} or more")

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """All workers are idle: at the start, and after a rollback."""
        self.roster, self.updates = Roster(workers), 0
        self.buffer: dict[int, Grad] = {}
        return self.roster.all()

    def arrived(self, grad: Grad) -> Verdict:
        """Keep the gradient; it may be the last one that was needed."""
        self.buffer[grad.worker] = grad
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Wait for a worker that restarts; go on without one that left."""
        if restarting:
            self.roster.lost_work |= self.roster.members & {worker} - self.buffer.keys()
            return NOTHING
        self.roster.leave(worker)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """Who lost its work computes again; who is new enters with the next update."""
        return Verdict(go=(worker,)) if self.roster.admits(worker) else NOTHING

    def log_state(self) -> dict[str, float | int | str]:
        """What the record shows of the gate's state."""
        return {"arrived": len(self.buffer), "updates": self.updates}

    def _test(self) -> Verdict:
        spare = 0 if (self.updates + 1) % self.every == 0 else self.spare
        enough = len(self.buffer) >= max(1, len(self.roster.members) - spare)
        if not (enough or self.roster.members <= self.buffer.keys()):
            return NOTHING
        if not (self.buffer or self.roster.deserted):
            return NOTHING
        update, self.buffer = by_worker(self.buffer.values()), {}
        self.updates += 1
        go = {grad.worker for grad in update} | self.roster.enter()
        return Verdict(apply=update, go=tuple(sorted(go & self.roster.members)), opens=not update)


@dataclass(kw_only=True)
class MyStrategy(Composition):
    """Parts make a strategy: here a gate of our own, with the data service and the weights that all have."""

    spare: int = 1
    every: int = 3
    data: str = "dynamic"

    def compose(self) -> Parts:
        """The parts; ``stragglab.strategies`` has more: loads, detectors, actions, schedules."""
        return Parts(gate=MostGate(spare=self.spare, every=self.every))

    def validate(self, num_workers: int) -> None:
        """Refuse settings that do not fit the cluster, before anything starts."""
        if self.spare >= num_workers:
            raise ValueError(f"spare={self.spare}: must be less than the number of workers ({num_workers})")
