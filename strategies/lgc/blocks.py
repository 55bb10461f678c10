"""Gate ``blocks(K, m)``: as ``delayed(K)`` with gradients that come in m parts (LGC's partial gradients)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.parts.checks import NonNegativeInt, PositiveInt, check_settings
from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.parts.gates.quorum import check_most, three_quarters
from strategies.protocol import Grad, Started


@final
@dataclass(kw_only=True)
class BlocksGate:
    """K workers that are whole make the update, with all parts that the others have delivered by then.

    A worker is whole when ``blocks`` of its parts on the current parameters have arrived; then it waits. Until then it
    continues at once with the next part, on the newest parameters, even after a part that was late or too late.
    ``done`` counts the fresh parts of every worker since the last update.

    Attributes:
        k_fastest: K, from 1 to the number of workers; None: three quarters of the workers, rounded up.
        max_delay_versions: updates by which a part may be late and still count.
        blocks: parts of a batch, m.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = True

    k_fastest: PositiveInt | None = None
    max_delay_versions: NonNegativeInt = 1
    blocks: PositiveInt = 2

    def __post_init__(self) -> None:
        check_settings(self)

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` if there are fewer workers than ``k_fastest``."""
        check_most("k_fastest", self.k_fastest, num_workers)

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """Raise ``ValueError`` unless every part holds a sample."""
        if self.blocks > (smallest := global_batch_samples // num_workers):
            raise ValueError(f"blocks={self.blocks}: must be at most the samples of the smallest batch ({smallest})")

    def start(self, started: Started) -> None:
        """Fix K for the job, whichever workers leave or join later."""
        self.num_whole = self.k_fastest or three_quarters(len(started.workers))

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster, self.version = Roster(workers), version
        self.done = dict.fromkeys(self.roster.all(), 0)
        self.computing = set(self.roster.members)
        self.buffer: list[Grad] = []
        return self.roster.all()

    def portion(self, worker: int) -> tuple[int, int]:
        """Parts of a batch are computed in turn."""
        return self.done[worker], self.blocks

    def arrived(self, grad: Grad) -> Verdict:
        """The worker continues with its next part, unless it is whole or finds no more data."""
        worker = grad.worker
        if grad.samples and self.version - grad.version > self.max_delay_versions:
            return Verdict(drop=(grad,), go=(worker,))
        self.buffer.append(grad)
        if not grad.samples:
            self.done[worker] = self.blocks
        elif grad.version == self.version:
            self.done[worker] += 1
        if self.done[worker] < self.blocks:
            return Verdict(go=(worker,))
        self.computing.discard(worker)
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """A worker that restarts can still become whole; one that left is not waited for."""
        if restarting:
            self.roster.lost_work |= self.computing & {worker}
            return NOTHING
        self.roster.leave(worker)
        self.computing.discard(worker)
        if self.done.get(worker, 0) < self.blocks:
            self.done.pop(worker, None)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member computes the part that it lost; a new one enters with the next update."""
        if not self.roster.admits(worker):
            return NOTHING
        self.computing.add(worker)
        self.done.setdefault(worker, 0)
        return Verdict(go=(worker,))

    def _test(self) -> Verdict:
        whole = sum(done >= self.blocks for done in self.done.values())
        if whole < min(self.num_whole, len(self.done)) or not (self.buffer or self.roster.deserted):
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        self.version += any(grad.samples for grad in update)
        self.roster.enter()
        self.done = dict.fromkeys(self.roster.all(), 0)
        go = self.roster.members - self.computing
        self.computing |= go
        return Verdict(apply=update, go=tuple(sorted(go)), opens=not update)

    def log_state(self) -> dict[str, float | int | str]:
        """Numbers of whole workers and of waiting parts."""
        return {"whole": sum(done >= self.blocks for done in self.done.values()), "parts": len(self.buffer)}
