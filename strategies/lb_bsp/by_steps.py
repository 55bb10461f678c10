"""LB-BSP on accelerators: samples move from the slowest worker to the fastest (Chen et al., SoCC 2020; pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from strategies.lb_bsp.leader_straggler import Balancer
from strategies.parts.checks import (
    NonNegativeFloat,
    NonNegativeInt,
    OneOf,
    PositiveInt,
    check_number,
    check_settings,
    check_whole,
)
from strategies.parts.load.allocation import check_batch_bounds, relaxed, split_min_max
from strategies.parts.load.newcomers import samples_of_round, size_of
from strategies.parts.load.round_sizes import extremes
from strategies.parts.monitoring.warmup import Warmup
from strategies.protocol import AnyEvent, Arrived, Compute, Started


@dataclass(kw_only=True)
class StepsSettings:
    """How samples move (``kind: gpu``), and the bounds of batches.

    Attributes:
        min_batch_samples: smallest batch; at least 1, because a worker without samples cannot be observed.
        max_batch_samples: largest batch (memory); None: no bound.
        delta_samples: size of a move (gpu).
        delta_frac: size of a move as a part of an even share, B / N, instead of ``delta_samples`` (gpu).
        window_iters: rounds between two moves (gpu).
        dead_band_frac: part of the fastest worker's time by which the slowest must be later (gpu).
        halving: whether swapped roles halve the step and double the window.
        unanimous: whether the fastest must have beaten the slowest in each of the last ``window_iters`` rounds (STAR).
        times: which times are compared: of ``computing``, or of the whole ``iteration`` with transfers (STAR).
    """

    min_batch_samples: PositiveInt = 1
    max_batch_samples: int | None = None
    delta_samples: PositiveInt = 32
    delta_frac: float | None = None
    window_iters: PositiveInt = 8
    dead_band_frac: NonNegativeFloat = 0.05
    halving: bool = True
    unanimous: bool = False
    times: Annotated[str, OneOf("computing", "iteration")] = "computing"


@final
@dataclass(kw_only=True)
class StepsLoad(StepsSettings):
    """Once per window of rounds a step of samples moves, a smaller one when the two swap roles."""

    steady: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True

    warmup_iters: NonNegativeInt = 3

    def __post_init__(self) -> None:
        check_settings(self)
        if self.max_batch_samples is not None:
            check_whole("max_batch_samples", self.max_batch_samples, self.min_batch_samples)
        if self.delta_frac is not None:
            check_number("delta_frac", self.delta_frac, above=0)
            if self.delta_frac > 1:
                raise ValueError(f"delta_frac={self.delta_frac}: must be at most 1, a whole share of the batch")

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """Raise ``ValueError`` if no split keeps the bounds."""
        check_batch_bounds(num_workers, global_batch_samples, self.min_batch_samples, self.max_batch_samples)

    def start(self, started: Started) -> None:
        """Split evenly: no time is known yet."""
        self._total = sum(started.batch_samples)
        self._sizes = dict(zip(started.workers, started.batch_samples, strict=True))
        self._warmup = Warmup(self.warmup_iters)
        share = self._total / len(started.workers)
        delta = self.delta_samples if self.delta_frac is None else max(1, round(self.delta_frac * share))
        self._balancer = Balancer(delta, self.window_iters, self.dead_band_frac, self.halving, self.unanimous)
        self._times: dict[int, float] = {}
        self._seat(started.workers)

    def observe_event(self, event: AnyEvent) -> None:
        """Collect the times of this round."""
        if isinstance(event, Arrived) and self._warmup.tells(event):
            timings = event.timings
            self._times[event.grad.worker] = timings.bpt_s if self.times == "computing" else timings.own_s

    def _seat(self, workers: tuple[int, ...]) -> None:
        """These workers have the next round, with sizes that stay until it is over."""
        self._round, self._extremes = workers, extremes(self._sizes, workers)

    def order(self, worker: int) -> Compute:
        """The worker's size in this round."""
        return Compute(worker=worker, num_samples=size_of(self._sizes, worker))

    def resize(self, workers: tuple[int, ...]) -> None:
        """Make a step if one is due; when members change, split in proportion to the current sizes."""
        count = len(workers)
        total = samples_of_round(self._total, count)
        lows, highs = relaxed(total, [self.min_batch_samples] * count, [self.max_batch_samples] * count)
        if workers == self._round:
            self._rebalance(workers, lows, highs)
        else:
            usual = total / count
            known = [float(self._sizes[worker]) if worker in self._round else usual for worker in workers]
            self._sizes.update(zip(workers, split_min_max(total, known, lows, highs), strict=True))
            self._balancer.restart()
        self._times = {}
        self._seat(workers)

    def _rebalance(self, workers: tuple[int, ...], lows: list[int], highs: list[int | None]) -> None:
        """Pass the round's times to the balancer; a round with an unusable time is ignored for all workers."""
        sizes = {worker: size_of(self._sizes, worker) for worker in workers}
        if self._times.keys() == sizes.keys():
            self._balancer.round_done(self._times, sizes)
        if move := self._balancer.move(sizes, lows, highs):
            self._sizes[move.leader] += move.samples
            self._sizes[move.straggler] -= move.samples

    def log_state(self) -> dict[str, float | int | str]:
        """The smallest and the largest size, and the step."""
        return {**self._extremes, "delta_samples": self._balancer.delta}
