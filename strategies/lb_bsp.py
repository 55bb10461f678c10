"""LB-BSP: BSP in which the batch sizes follow the workers' speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from predictors import SPEED_PREDICTORS
from strategies.checks import check_choice, check_number, check_whole
from strategies.gated import GatedStrategy
from strategies.gates import AllGate, Gate
from strategies.load.allocation import check_batch_bounds, relaxed, split_min_max
from strategies.load.forecast import Forecast
from strategies.load.leader_straggler import Balancer
from strategies.load.regaining import Regaining
from strategies.protocol import AnyCommand, AnyEvent, Arrived, Observed, Started
from strategies.watching.warmup import Warmup


@final
@dataclass(kw_only=True)
class LBBSP(GatedStrategy):
    """One update per round of all workers, each with a batch that fits its speed; the batches always sum to B.

    Source: Chen et al., "Semi-dynamic load balancing", SoCC 2020; AntDT's and STAR's baseline LB-BSP. Decided between
    two rounds, never within one. ``kind: cpu`` predicts every worker's speed for the next round and splits B so that
    the slowest is as early as possible. ``kind: gpu`` moves ``delta_samples`` from the slowest worker to the fastest
    once per window, fewer when the two swap roles.

    Departures: times are loading and computing (AntDT's BPT): batch sizes do not change how long a transfer takes.
    STAR compares iteration times (``times: iteration``), so its LB-BSP sees a slow link, and relieves the worker behind
    it of what computing it has. The split is the exact integer one and not rounded shares, and who would stay early by
    rounding gets a sample more. When members leave or join, the next round's sizes again sum to B, if need be beyond
    the bounds.

    Attributes:
        kind: ``cpu`` or ``gpu``.
        predictor: ``narx``, ``arx``, ``ema`` or ``last`` (cpu).
        ema_alpha: weight of the newest iteration (cpu, ema), in (0, 1].
        min_batch_samples: nobody gets fewer; at least 1, since who computes nothing cannot be observed.
        max_batch_samples: nobody gets more (memory); None: no bound.
        delta_samples, window_iters, dead_band_frac: size of a move, rounds between two, and the part of the fastest
            worker's time by which the slowest must be later (gpu).
        delta_frac: the size of a move as a part of an even share, B / N, instead of ``delta_samples`` (gpu).
        times: whose times are compared: of ``computing`` or of the whole ``iteration``, transfers included (gpu).
        halving: swapped roles halve the move and double the window (gpu).
        unanimous: the fastest must have beaten the slowest in each of the last ``window_iters`` rounds (gpu; STAR).
        confirm_iters: iterations in a row that must have been slow before a worker counts as slow (cpu).
        min_records: iterations of a worker before its own speed counts (cpu).
        warmup_iters: first iterations of a process that count for nothing.
    """

    topologies: ClassVar[frozenset[str]] = frozenset({"ps", "allreduce"})

    kind: str = "cpu"
    predictor: str = "narx"
    ema_alpha: float = 0.2
    min_batch_samples: int = 1
    max_batch_samples: int | None = None
    delta_samples: int = 32
    delta_frac: float | None = None
    window_iters: int = 8
    dead_band_frac: float = 0.05
    halving: bool = True
    unanimous: bool = False
    times: str = "computing"
    confirm_iters: int = 1
    min_records: int = 5
    warmup_iters: int = 3
    data: str = "shared"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_choice("kind", self.kind, "cpu", "gpu")
        check_choice("predictor", self.predictor, *SPEED_PREDICTORS)
        check_number("ema_alpha", self.ema_alpha, above=0)
        if self.ema_alpha > 1:
            raise ValueError(f"ema_alpha={self.ema_alpha}: must be at most 1")
        check_whole("min_batch_samples", self.min_batch_samples, 1)
        if self.max_batch_samples is not None:
            check_whole("max_batch_samples", self.max_batch_samples, self.min_batch_samples)
        check_whole("delta_samples", self.delta_samples, 1)
        if self.delta_frac is not None:
            check_number("delta_frac", self.delta_frac, above=0)
            if self.delta_frac > 1:
                raise ValueError(f"delta_frac={self.delta_frac}: must be at most 1, a whole share of the batch")
        check_choice("times", self.times, "computing", "iteration")
        check_whole("window_iters", self.window_iters, 1)
        check_number("dead_band_frac", self.dead_band_frac, 0)
        check_whole("confirm_iters", self.confirm_iters, 1)
        check_whole("min_records", self.min_records, 1)
        check_whole("warmup_iters", self.warmup_iters)

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """The bounds leave a split."""
        check_batch_bounds(num_workers, global_batch_samples, self.min_batch_samples, self.max_batch_samples)

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """Everybody waits for everybody."""
        return AllGate(workers)

    def shares(self, started: Started) -> list[int]:
        """An even split; nothing is known yet."""
        self._warmup = Warmup(self.warmup_iters)
        self._forecast = Forecast(self.predictor, self.ema_alpha, self.min_records, self.confirm_iters)
        share = sum(started.batch_samples) / len(started.workers)
        delta = self.delta_samples if self.delta_frac is None else max(1, round(self.delta_frac * share))
        self._balancer = Balancer(delta, self.window_iters, self.dead_band_frac, self.halving, self.unanimous)
        self._regaining = Regaining()
        self._times: dict[int, float] = {}
        self._round: tuple[int, ...] = started.workers
        return super().shares(started)

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Look at the times before the gate acts on the arrival."""
        match event:
            case Arrived() if self._warmup.tells(event):
                timings = event.timings
                self._times[event.grad.worker] = timings.bpt_s if self.times == "computing" else timings.own_s
                self._forecast.arrived(event)
            case Observed():
                self._forecast.observed(event)
        return super().handle(event)

    def before_round(self, workers: tuple[int, ...]) -> None:
        """New sizes that sum to B."""
        lows, highs = relaxed(
            self._global_batch, [self.min_batch_samples] * len(workers), [self.max_batch_samples] * len(workers)
        )
        if self.kind == "cpu":
            self._follow(workers, self._forecast.speeds(workers), lows, highs)
        elif workers != self._round:
            usual = self._global_batch / len(workers)
            known = [float(self._batch[worker]) if worker in self._round else usual for worker in workers]
            self._split(workers, known, lows, highs)
            self._balancer.restart()
        else:
            self._rebalance(workers, lows, highs)
        self._times = {}
        self._round = workers

    def _follow(
        self, workers: tuple[int, ...], speeds: Sequence[float], lows: Sequence[int], highs: Sequence[int | None]
    ) -> None:
        """Sizes in proportion to speeds, and a sample more for who would stay early by rounding."""
        before = [self._batch[worker] for worker in workers]
        self._split(workers, speeds, lows, highs)
        sizes = [self._batch[worker] for worker in workers]
        least = self._regaining.lows(self._global_batch, workers, speeds, before, sizes, lows)
        if least != list(lows):
            self._split(workers, speeds, *relaxed(self._global_batch, least, highs))

    def _split(
        self, workers: tuple[int, ...], speeds: Sequence[float], lows: Sequence[int], highs: Sequence[int | None]
    ) -> None:
        sizes = split_min_max(self._global_batch, speeds, lows, highs)
        self._batch.update(zip(workers, sizes, strict=True))

    def _rebalance(self, workers: tuple[int, ...], lows: Sequence[int], highs: Sequence[int | None]) -> None:
        """Rounds in which some time tells nothing count for nobody."""
        sizes = {worker: self._batch[worker] for worker in workers}
        if self._times.keys() == sizes.keys():
            self._balancer.round_done(self._times, sizes)
        if move := self._balancer.move(sizes, lows, highs):
            self._batch[move.leader] += move.samples
            self._batch[move.straggler] -= move.samples

    def log_state(self) -> dict[str, float | int | str]:
        """The gate's state, the extremes of the sizes, and the step."""
        sizes = [self._batch[worker] for worker in self._round]
        state = {**self._gate.log_state(), "smallest_batch": min(sizes), "largest_batch": max(sizes)}
        return state if self.kind == "cpu" else {**state, "delta_samples": self._balancer.delta}
