"""Gate ``delayed(K)``: the first K fresh gradients make the update, with gradients that are slightly late (LGC)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from reading.ranges import Checked, NonNegativeInt, OneOf, PositiveInt
from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.parts.gates.quorum import three_quarters
from strategies.protocol import AnyEvent, Failed, Grad, Started


def num_fastest(k_fastest: int | None, num_workers: int) -> int:
    """K of a job: STAR's 5 are all workers of a job with four of them."""
    return three_quarters(num_workers) if k_fastest is None else min(k_fastest, num_workers)


@final
@dataclass(kw_only=True)
class BlocksGate(Checked):
    """K workers that are whole make the update, with all parts that the others have delivered by then.

    A worker is whole when ``blocks`` of its parts on the current parameters have arrived; then it waits. Until then it
    continues at once with the next part, on the newest parameters, even after a part that was late or too late.
    ``done`` counts the fresh parts of every worker since the last update.

    Attributes:
        k_fastest: K, of fewer workers all; None: three quarters of the workers, rounded up.
        max_delay_versions: updates by which a part may be late and still count.
        blocks: parts of a batch, m.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = True

    k_fastest: PositiveInt | None = None
    max_delay_versions: NonNegativeInt = 1
    blocks: PositiveInt = 2

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        if self.blocks > (smallest := global_batch_samples // num_workers):
            raise ValueError(f"blocks={self.blocks}: must be at most the samples of the smallest batch ({smallest})")

    def start(self, started: Started) -> None:
        self.num_whole = num_fastest(self.k_fastest, len(started.workers))

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
        if not self.roster.lose(worker, restarting, self.computing):
            return NOTHING
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
        return {"whole": sum(done >= self.blocks for done in self.done.values()), "parts": len(self.buffer)}


@final
@dataclass(kw_only=True)
class DelayedGate(Checked):
    """A gradient that is at most ``max_delay_versions`` old waits for the next update, an older one is dropped.

    A worker that has delivered a fresh gradient waits for the update with it. One that has delivered a late gradient
    begins again at once if its next one will be at most ``max_delay_versions`` late, extrapolating its last duration
    and the last interval between updates. Otherwise (or always, with ``late_begin=next_update``) it waits too:
    beginning at once would make its next gradient even older. If fewer than K gradients can still be fresh (workers
    have left, or compute on old parameters), those suffice.

    ``base`` is the least version that every worker computes on, ``begun_s`` the time at which it began.

    Attributes:
        k_fastest: K, of fewer workers all; None: three quarters of the workers, rounded up.
        max_delay_versions: updates by which a gradient may be late and still count.
        late_begin: when a late worker begins again: ``in_time`` or ``next_update``.
    """

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = True

    k_fastest: PositiveInt | None = None
    max_delay_versions: NonNegativeInt = 1
    late_begin: Annotated[str, OneOf("in_time", "next_update")] = "in_time"

    def start(self, started: Started) -> None:
        self.num_fresh = num_fastest(self.k_fastest, len(started.workers))
        self.now_s = 0.0

    def observe_event(self, event: AnyEvent) -> None:
        """Keep the time, by which lateness is predicted; a worker that failed computes again, on newer parameters."""
        self.now_s = event.t
        if isinstance(event, Failed):
            self._go(event.worker)

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        """All workers compute on ``version`` from now on."""
        self.roster, self.version = Roster(workers), version
        self.updated_s, self.period_s = self.now_s, 0.0
        self.base = dict.fromkeys(self.roster.all(), version)
        self.begun_s = dict.fromkeys(self.base, self.now_s)
        self.buffer: list[Grad] = []
        return self.roster.all()

    def arrived(self, grad: Grad) -> Verdict:
        """Drop a gradient that is too late; buffer any other, and update when enough fresh ones have arrived."""
        if grad.samples and self.version - grad.version > self.max_delay_versions:
            return Verdict(drop=(grad,), go=self._go(grad.worker))
        self.base.pop(grad.worker, None)
        self.buffer.append(grad)
        if grad.samples and grad.version < self.version and self._in_time(grad.worker):
            return Verdict(go=self._go(grad.worker))
        return self._test()

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """A restarting worker repeats its work on newer parameters; one that left is not waited for."""
        if not self.roster.lose(worker, restarting, self.base.keys()):
            return NOTHING
        self.base.pop(worker, None)
        return self._test()

    def joined(self, worker: int) -> Verdict:
        """A returning member computes if its work was lost; a new one enters with the next update."""
        if not self.roster.admits(worker):
            return NOTHING
        return Verdict(go=self._go(worker))

    def _test(self) -> Verdict:
        fresh = sum(not grad.samples or grad.version == self.version for grad in self.buffer)
        coming = sum(base == self.version or worker in self.roster.lost_work for worker, base in self.base.items())
        if fresh < min(self.num_fresh, fresh + coming) or not (self.buffer or self.roster.deserted):
            return NOTHING
        update, self.buffer = by_worker(self.buffer), []
        self.version += any(grad.samples for grad in update)
        entered = self.roster.enter()
        go = (self.roster.members & {grad.worker for grad in update} | entered) - self.base.keys()
        self.period_s, self.updated_s = self.now_s - self.updated_s, self.now_s
        return Verdict(apply=update, go=self._go(*sorted(go)), opens=not update)

    def _go(self, *workers: int) -> tuple[int, ...]:
        """The workers begin on the current parameters."""
        self.base |= dict.fromkeys(workers, self.version)
        self.begun_s |= dict.fromkeys(workers, self.now_s)
        return workers

    def _in_time(self, worker: int) -> bool:
        """Whether a gradient begun now is expected to be at most ``max_delay_versions`` late."""
        takes_s = self.now_s - self.begun_s.get(worker, self.now_s)
        ready_s = self.now_s + takes_s - self.updated_s
        begins = self.late_begin == "in_time" and worker in self.roster.members
        return begins and ready_s < (self.max_delay_versions + 1) * self.period_s

    def log_state(self) -> dict[str, float | int | str]:
        late = sum(bool(grad.samples) and grad.version < self.version for grad in self.buffer)
        return {"fresh": len(self.buffer) - late, "late": late}
