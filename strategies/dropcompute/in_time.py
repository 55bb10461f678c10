"""Parts of DropCompute: orders with a threshold that is found from a profile, and the mean over what was ordered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import msgspec

from reading.ranges import Bool, Checked, NonNegativeInt, PositiveFloat, PositiveInt
from strategies.dropcompute.threshold import Round, Threshold, best_threshold
from strategies.parts.hooks import Order, State
from strategies.parts.load.allocation import size_of
from strategies.parts.weights import mean_weight
from strategies.protocol import EVER_S, AnyCommand, AnyEvent, Apply, Arrived, Compute, Grad, Lost, Restored, Started


@final
@dataclass(kw_only=True)
class InTimeLoad(Checked):
    """Nominal batches in micro-batches, of which a worker begins none after the threshold.

    Attributes:
        micro_batches: M, micro-batches of a worker's batch.
        threshold_s: seconds of computing; None: found from a profile, before which there is none.
        profile_iters: iterations of all workers that the profile has.
        warmup_iters: first iterations of the job that are ignored.
        finishes: see :func:`strategies.dropcompute.threshold.effective_speedups`.
        requeue: whether the samples of dropped micro-batches are computed later.
    """

    steady: ClassVar[bool] = True
    needs_rounds: ClassVar[bool] = True
    cuts: ClassVar[bool] = True

    micro_batches: PositiveInt = 4
    threshold_s: PositiveFloat | None = None
    profile_iters: PositiveInt = 20
    warmup_iters: NonNegativeInt = 3
    finishes: Bool = True
    requeue: Bool = False

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        if self.micro_batches > global_batch_samples // num_workers:
            raise ValueError(
                f"micro_batches={self.micro_batches}: must be at most the samples of the smallest batch "
                f"({global_batch_samples // num_workers})"
            )

    def start(self, started: Started) -> None:
        self.sizes = dict(zip(started.workers, started.batch_samples, strict=True))
        self.rounds: list[Round] = []
        self.found: Threshold | None = None
        self._within_s = EVER_S if self.threshold_s is None else self.threshold_s
        self._left_out = self.warmup_iters
        self._begin(None)

    def _begin(self, since_s: float | None) -> None:
        """Begin to profile an iteration; ``since_s``: the last arrival of the one before, None: not a usual one."""
        self._version, self._since_s, self._last_s = -1, since_s, since_s
        self._ends_s: dict[int, tuple[float, ...]] = {}

    def observe_event(self, event: AnyEvent) -> None:
        """Profile iterations; one with a loss, or before which all were restored, does not count."""
        if self.threshold_s is not None or self.found is not None:
            return
        match event:
            case Lost() | Restored():
                self._begin(None)
            case Arrived(grad=grad, t=t):
                if grad.version != self._version:
                    self._end()
                    self._version = grad.version
                if len(grad.ends_s) == self.micro_batches:
                    self._ends_s[grad.worker] = grad.ends_s
                self._last_s = t

    def _end(self) -> None:
        """The iteration has ended: the first gradient of the next is there."""
        if self._since_s is not None and self._last_s is not None and self._ends_s:
            self._left_out -= 1
            slowest_s = max(ends[-1] for ends in self._ends_s.values())
            if self._left_out < 0:
                rest_s = max(0.0, self._last_s - self._since_s - slowest_s)
                self.rounds.append(Round(tuple(self._ends_s.values()), rest_s))
        self._begin(self._last_s)
        if len(self.rounds) == self.profile_iters:
            self.found = best_threshold(self.rounds, finishes=self.finishes)
            self._within_s = self.found.seconds

    def resize(self, workers: tuple[int, ...]) -> None:
        """Keep the sizes: they never change."""
        return None

    def order(self, worker: int) -> Compute:
        size = size_of(self.sizes, worker)
        accum = min(self.micro_batches, size)
        return Compute(worker=worker, num_samples=size, accum=accum, within_s=self._within_s, requeue=self.requeue)

    def log_state(self) -> State:
        if self.found is None:
            return {"profiled": len(self.rounds)} if self.threshold_s is None else {}
        return {
            "threshold_s": self.found.seconds,
            "expected_speedup": self.found.speedup,
            "expected_drop_frac": self.found.dropped_frac,
        }


@final
class MeanOverOrdered:
    """Divides the sum of an update by all samples that were handed out for it, computed or not (Algorithm 1)."""

    rescales: ClassVar[bool] = True

    def applied(self, grads: tuple[Grad, ...]) -> None:
        self._cut = any(grad.cut_samples for grad in grads)
        self._ordered = sum(grad.samples + grad.cut_samples for grad in grads)

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: Order) -> list[AnyCommand]:
        """The same commands, with that weight in the update."""
        return [self._weigh(one) if isinstance(one, Apply) and self._cut else one for one in commands]

    def _weigh(self, update: Apply) -> Apply:
        weights: Sequence[float] = (mean_weight(self._ordered),) * len(update.grads)
        return msgspec.structs.replace(update, weights=tuple(weights))
