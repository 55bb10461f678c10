"""LB-BSP on accelerators: samples move from the slowest worker to the fastest (Chen et al., SoCC 2020; pure).

An accelerator's time is flat below its saturation, so shares in proportion to speed would be wrong; a step needs
only the first and the last worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, ClassVar, NamedTuple, final

from reading.ranges import NonNegativeFloat, NonNegativeInt, OneOf, PositiveFrac, PositiveInt
from strategies.lb_bsp.bounded import BoundedLoad, BoundSettings
from strategies.parts.load.allocation import extremes, size_of, split_min_max
from strategies.parts.monitoring.base import Warmup
from strategies.protocol import AnyEvent, Arrived, Started

REGIME_CHANGE_FRAC = 0.2
"""A time that deviates by more from the range that the last window and later moves allow is a change of regime."""

Times = Mapping[int, float]
Sizes = Mapping[int, int]


@dataclass(kw_only=True)
class StepsSettings(BoundSettings):
    """How samples move (``kind: gpu``), and the bounds of batches.

    Attributes:
        delta_samples: size of a move (gpu).
        delta_frac: size of a move as a part of an even share, B / N, instead of ``delta_samples`` (gpu).
        window_iters: rounds between two moves (gpu).
        dead_band_frac: part of the fastest worker's time by which the slowest must be later (gpu).
        halving: whether swapped roles halve the step and double the window.
        unanimous: whether the fastest must have beaten the slowest in each of the last ``window_iters`` rounds (STAR),
            which is tested after every round, instead of filling one window after another.
        times: which times are compared: of ``computing``, or of the whole ``iteration`` with transfers (STAR).
    """

    delta_samples: PositiveInt = 32
    delta_frac: PositiveFrac | None = None
    window_iters: PositiveInt = 8
    dead_band_frac: NonNegativeFloat = 0.05
    halving: bool = True
    unanimous: bool = False
    times: Annotated[str, OneOf("computing", "iteration")] = "computing"


class Move(NamedTuple):
    """``samples`` move from ``straggler`` to ``leader``."""

    leader: int
    straggler: int
    samples: int


@final
class Balancer:
    """Medians over a window of rounds decide; roles that swap halve the step and double the window.

    Medians, because with means one round with a paused process would make it the straggler of the whole window.

    Args:
        settings: how samples move.
        delta_samples: first size of a step.
    """

    def __init__(self, settings: StepsSettings, delta_samples: int) -> None:
        self.settings, self.delta_samples = settings, delta_samples
        self.restart()

    def restart(self) -> None:
        """Reset to the initial state: the workers have changed, or their measurements are void."""
        self._forget()
        self._last_window: tuple[Sizes, Times] | None = None
        self._usual: dict[int, int] = {}
        self._owed: dict[int, int] = {}
        self._fresh_step()

    def _forget(self) -> None:
        """Discard the measurements so far."""
        self._rounds: list[Times] = []
        self._since = 0

    def _fresh_step(self) -> None:
        self.delta, self.window = self.delta_samples, self.settings.window_iters
        self._last_pair: tuple[int, int] | None = None

    def round_done(self, times: Times, sizes: Sizes) -> None:
        """Record the seconds of every worker for a whole round of these ``sizes``."""
        self._rounds.append(times)
        self._since += 1
        del self._rounds[: -self.window]  # at most one window is used
        if self._since % self.settings.window_iters:
            return
        recent = self._rounds[-self.settings.window_iters :]
        slower, faster = self._find_changes(_medians(recent), sizes)
        if slower or faster:
            self._fresh_step()
            self._rounds, self._since = recent, len(recent)
        for worker in slower:
            self._usual.setdefault(worker, sizes[worker])
            self._owed.pop(worker, None)
        for worker in self._usual.keys() & faster:
            self._owed[worker] = self._usual.pop(worker)

    def move(self, sizes: Sizes, lows: Sequence[int], highs: Sequence[int | None]) -> Move | None:
        """The move before the next round, if any, with bounds in the order of ``sizes``.

        A worker that was slow and has recovered gets its former size back, one step per round.
        """
        if move := self._give_back(sizes, lows, highs):
            return move
        if len(self._rounds) < self.window:
            return None
        rounds = self._rounds[-self.window :]
        medians = _medians(rounds)
        if not self.settings.unanimous or self._since % self.settings.window_iters == 0:
            self._last_window = dict(sizes), medians
        if not self.settings.unanimous:
            self._forget()
        low, high = dict(zip(sizes, lows, strict=True)), dict(zip(sizes, highs, strict=True))
        leaders = [worker for worker in sizes if (most := high[worker]) is None or sizes[worker] < most]
        stragglers = [worker for worker in sizes if sizes[worker] > low[worker]]
        if not leaders or not stragglers:
            return None
        leader = min(leaders, key=lambda worker: (medians[worker], worker))
        straggler = min(stragglers, key=lambda worker: (-medians[worker], worker))
        if not self._is_worth_it(leader, straggler, rounds, medians):
            return None
        self._step_down_if_swapped(leader, straggler)
        self._forget()
        most = high[leader]
        room = self.delta if most is None else most - sizes[leader]
        return Move(leader, straggler, min(self.delta, room, sizes[straggler] - low[straggler]))

    def _is_worth_it(self, leader: int, straggler: int, rounds: Sequence[Times], medians: Times) -> bool:
        if medians[straggler] - medians[leader] <= self.settings.dead_band_frac * medians[leader]:
            return False
        return not self.settings.unanimous or all(times[leader] < times[straggler] for times in rounds)

    def _step_down_if_swapped(self, leader: int, straggler: int) -> None:
        if self.settings.halving and self._last_pair == (straggler, leader) and self.delta > 1:
            self.delta, self.window = self.delta // 2, self.window * 2
        self._last_pair = (leader, straggler)

    def _give_back(self, sizes: Sizes, lows: Sequence[int], highs: Sequence[int | None]) -> Move | None:
        for place, (worker, size) in enumerate(sizes.items()):
            most = highs[place]
            missing = self._owed.get(worker, size) if most is None else min(self._owed.get(worker, size), most)
            if missing <= size:
                self._owed.pop(worker, None)
                continue
            givers = [other for other, low in zip(sizes, lows, strict=True) if sizes[other] > max(low, size + 1)]
            if not givers:
                self._owed.pop(worker, None)
                continue
            giver = max(givers, key=lambda other: (sizes[other], -other))
            self._forget()
            return Move(worker, giver, min(self.delta_samples, missing - size, (sizes[giver] - size) // 2))
        return None

    def _find_changes(self, medians: Times, sizes: Sizes) -> tuple[set[int], set[int]]:
        """Workers whose time has grown, and workers whose time has shrunk, by more than a move explains.

        A worker whose batch went from b to b' takes between 1 and b'/b times as long, whatever part of its time is
        fixed; one whose batch stayed takes as long as before.
        """
        slower, faster = set[int](), set[int]()
        if self._last_window is None:
            return slower, faster
        old_sizes, old_medians = self._last_window
        for worker, seconds in medians.items():
            ratio, grown = seconds / old_medians[worker], sizes[worker] / old_sizes[worker]
            if ratio > max(1.0, grown) * (1 + REGIME_CHANGE_FRAC):
                slower.add(worker)
            elif ratio < min(1.0, grown) * (1 - REGIME_CHANGE_FRAC):
                faster.add(worker)
        return slower, faster


def _medians(rounds: Sequence[Times]) -> dict[int, float]:
    return {worker: median(times[worker] for times in rounds) for worker in rounds[0]}


@final
@dataclass(kw_only=True)
class StepsLoad(StepsSettings, BoundedLoad):
    """Once per window of rounds a step of samples moves, a smaller one when the two swap roles."""

    needs_rounds: ClassVar[bool] = True

    warmup_iters: NonNegativeInt = 3

    def start(self, started: Started) -> None:
        self._begin(started)
        self._warmup = Warmup(self.warmup_iters)
        share = self._total / len(started.workers)
        delta = self.delta_samples if self.delta_frac is None else max(1, round(self.delta_frac * share))
        self._balancer = Balancer(self, delta)
        self._times: dict[int, float] = {}
        self._round = started.workers

    def observe_event(self, event: AnyEvent) -> None:
        if isinstance(event, Arrived) and self._warmup.tells(event):
            timings = event.timings
            self._times[event.grad.worker] = timings.bpt_s if self.times == "computing" else timings.own_s

    def resize(self, workers: tuple[int, ...]) -> None:
        """Make a step if one is due; when members change, split in proportion to the current sizes."""
        total, lows, highs = self._bounds(len(workers))
        if workers == self._round:
            self._rebalance(workers, lows, highs)
        else:
            usual = total / len(workers)
            known = [float(self._sizes[worker]) if worker in self._round else usual for worker in workers]
            self._sizes.update(zip(workers, split_min_max(total, known, lows, highs), strict=True))
            self._balancer.restart()
        self._times = {}
        self._round, self._extremes = workers, extremes(self._sizes, workers)

    def _rebalance(self, workers: tuple[int, ...], lows: Sequence[int], highs: Sequence[int | None]) -> None:
        """Pass the round's times to the balancer; a round with an unusable time is ignored for all workers."""
        sizes = {worker: size_of(self._sizes, worker) for worker in workers}
        if self._times.keys() == sizes.keys():
            self._balancer.round_done(self._times, sizes)
        if move := self._balancer.move(sizes, lows, highs):
            self._sizes[move.leader] += move.samples
            self._sizes[move.straggler] -= move.samples

    def log_state(self) -> dict[str, float | int | str]:
        return {**self._extremes, "delta_samples": self._balancer.delta}
