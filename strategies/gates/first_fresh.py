"""Gate ``first_fresh(K)``: the first K fresh gradients form the update, late ones are dropped (backup workers)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.checks import check_whole
from strategies.gates.base import NOTHING, Verdict, by_worker
from strategies.gates.needed import check_most, three_quarters
from strategies.gates.roster import Roster
from strategies.protocol import Grad, Started


@final
@dataclass(kw_only=True)
class FirstFreshGate:
    """A gradient is fresh iff it was computed on the current version. A worker is never interrupted.

    With fewer members than K the gate waits for all of them: with a fixed K, as in TensorFlow's SyncReplicasOptimizer,
    the job would hang.

    Attributes:
        k: gradients per update, from 1 to the number of workers.
        num_backup: workers that are not waited for, instead of ``k``; neither: a quarter, rounded down.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = True

    k: int | None = None
    num_backup: int | None = None

    def __post_init__(self) -> None:
        if self.k is not None:
            check_whole("k", self.k, 1)
        if self.num_backup is not None:
            check_whole("num_backup", self.num_backup)
        if self.k is not None and self.num_backup is not None:
            raise ValueError(f"num_backup={self.num_backup}: k={self.k} says already how many are waited for")

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` if there are fewer workers than gradients waited for."""
        check_most("k", self.k, num_workers)
        if self.num_backup is not None and self.num_backup >= num_workers:
            raise ValueError(f"num_backup={self.num_backup}: must be less than the number of workers ({num_workers})")

    def start(self, started: Started) -> None:
        """Fix K for the job, whichever workers leave or join later."""
        num_workers = len(started.workers)
        fewer = None if self.num_backup is None else num_workers - self.num_backup
        self.num_needed = self.k or fewer or three_quarters(num_workers)

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """All workers compute, backups included."""
        self.roster = Roster(workers)
        self.version = version
        self.buffer: dict[int, Grad] = {}
        return self.roster.all()

    def arrived(self, grad: Grad) -> Verdict:
        """Drop a late gradient, whose worker computes again; buffer a fresh one, and update when K have arrived."""
        if grad.samples and grad.version < self.version:
            return Verdict(drop=(grad,), go=(grad.worker,))
        self.buffer[grad.worker] = grad
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Keep waiting for a worker that restarts; the departure of another may complete the round."""
        if restarting:
            self.roster.lost_work |= self.roster.members & {worker} - self.buffer.keys()
            return NOTHING
        self.roster.leave(worker)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member computes if it lost its work; a new one enters with the next round."""
        return Verdict(go=(worker,)) if self.roster.admits(worker) else NOTHING

    def _test(self) -> Verdict:
        enough = len(self.buffer) >= self.num_needed or self.roster.members <= self.buffer.keys()
        if not enough or not (self.buffer or self.roster.deserted):
            return NOTHING
        update, self.buffer = by_worker(self.buffer.values()), {}
        self.version += any(grad.samples for grad in update)
        go = {grad.worker for grad in update} | self.roster.enter()
        return Verdict(apply=update, go=tuple(sorted(go & self.roster.members)), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        """The number of fresh gradients that have arrived."""
        return {"fresh": len(self.buffer)}
