"""Seconds of every worker by number of samples: given by the configuration, or equal at first and then measured (pure).

An iteration takes ``base_s + per_sample_s * samples``. With samples per second alone, a worker with a small share would
look slow. One size does not separate the two terms, so the first measurement yields throughputs only (base 0, the
papers' model); once shares change, there is a second size. Times are medians, because a window of delays or a single
slow iteration is not the worker's own speed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from math import inf
from statistics import median
from typing import NamedTuple, final

from strategies.parts.monitoring.base import Warmup
from strategies.protocol import Arrived

WARMUP_ITERS = 3
"""First iterations of a process, which are ignored."""
PATIENCE = 3
"""Rounds per requested iteration, after which fewer iterations suffice of workers that are late every time."""
LEAST_ITERS = 3
"""Iterations that suffice of such workers, and of a size that is no longer in use."""
ROWS = 10
"""Iterations of all workers by which two codes are compared."""
APART = 0.25
"""Least relative difference of two sizes that separates base and slope: times of equal work vary, too."""


class Pace(NamedTuple):
    """The time of an iteration without waiting and receiving, in seconds (any unit where throughputs are given)."""

    base_s: float
    per_sample_s: float

    def seconds(self, samples: float) -> float:
        """The time of ``samples`` samples; 0 for none."""
        return self.base_s + self.per_sample_s * samples if samples else 0.0


def fit_pace(times_s: Mapping[int, float]) -> Pace | None:
    """Base and slope from the times of the last two sizes; None where they are too close or contradict each other."""
    if len(times_s) < 2:
        return None
    (one, one_s), (other, other_s) = sorted(list(times_s.items())[-2:])
    slope_s = (other_s - one_s) / (other - one)
    if other - one < APART * other or slope_s <= 0:
        return None
    base_s = max(0.0, other_s - slope_s * other)
    return Pace(base_s, (other_s - base_s) / other)


@final
class Speeds:
    """Measures every worker's pace; ``known`` holds the values for the next code.

    Args:
        workers: of the job's start.
        given: their throughputs, in any unit; None: equal.
        num_iters: iterations that a measurement takes; 0: keep the given throughputs.

    ``_base_samples`` is the base of an iteration, as the number of samples that take as long.
    """

    def __init__(self, workers: Sequence[int], given: Sequence[float] | None, num_iters: int) -> None:
        self.known = {
            worker: Pace(0.0, 1.0 / speed) for worker, speed in zip(workers, given or [1.0] * len(workers), strict=True)
        }
        self.num_iters = num_iters
        self.measured = False
        self._base_samples = 0.0
        self._warmup, self._least = Warmup(WARMUP_ITERS), min(LEAST_ITERS, num_iters)
        self._seen: dict[int, dict[int, deque[float]]] = {}
        self._rounds, self._pause, self._next = 0, num_iters, num_iters

    def tell(self, event: Arrived) -> None:
        """Record the time of an arrived gradient."""
        if not self.num_iters or not self._warmup.tells(event):
            return
        by_size = self._seen.setdefault(event.grad.worker, {})
        by_size.setdefault(event.grad.samples, deque(maxlen=self.num_iters)).append(event.timings.iter_s)

    def of(self, workers: Sequence[int]) -> dict[int, Pace]:
        """Paces of these workers; a new one counts as the mean of the others until it is measured."""
        old = [self.known[worker] for worker in workers if worker in self.known]
        mean = _mean(old) if old else Pace(0.0, 1.0)
        self.known |= {worker: mean for worker in workers if worker not in self.known}
        return {worker: self.known[worker] for worker in workers}

    def current_times(self, assigned: Mapping[int, int], spare: int) -> dict[int, tuple[float, ...]] | None:
        """Seconds of every worker's last iterations with its current size; None until they are known.

        Call it once per round. After a while a few iterations suffice, and up to ``spare`` workers that have never
        delivered are left out.
        """
        self._rounds += 1
        if not self.num_iters or self._rounds < self._next:
            return None
        patient = self._rounds <= PATIENCE * (self.num_iters + WARMUP_ITERS)
        enough = self.num_iters if patient else self._least
        sizes = {worker: self._seen.get(worker, {}).get(samples, ()) for worker, samples in assigned.items()}
        ready = {worker: tuple(own) for worker, own in sizes.items() if len(own) >= enough}
        if len(assigned) - len(ready) > (0 if patient else spare):
            return None
        self._learn({worker: median(own) for worker, own in ready.items()}, assigned)
        self._next = self._rounds + self._pause
        return ready

    def note_refusal(self) -> None:
        """The measurement led to no new code: wait before the next attempt, twice as long each time."""
        self._pause *= 2
        self._next = self._rounds + self._pause

    def renew(self, assigned: Mapping[int, int]) -> None:
        """A new code is in use: keep the last size before it for every worker, and nothing older."""
        self._rounds, self._pause, self._next = 0, self.num_iters, self.num_iters
        for worker, samples in assigned.items():
            own = self._seen.get(worker, {})
            measured = [size for size, times in own.items() if size != samples and len(times) >= self._least]
            self._seen[worker] = {size: own[size] for size in measured[-1:]}

    def _learn(self, now_s: Mapping[int, float], assigned: Mapping[int, int]) -> None:
        """Paces of the measured workers: each one's time, divided into base and slope as for most workers.

        A worker's own two sizes are not enough: a delay that began between them looks like a slope.
        """
        fits = (fit_pace(self._sizes_of(worker, assigned[worker])) for worker in now_s)
        told = [pace.base_s / pace.per_sample_s for pace in fits if pace is not None]
        self._base_samples = median(told) if told else self._base_samples
        for worker, seconds in now_s.items():
            factor = seconds / (self._base_samples + assigned[worker])
            self.known[worker] = Pace(self._base_samples * factor, factor)
        if now_s:
            mean = _mean([self.known[worker] for worker in now_s])
            self.known |= {worker: mean for worker in assigned if worker not in now_s}
        self.measured = True

    def _sizes_of(self, worker: int, size: int) -> dict[int, float]:
        """Median times of the known sizes, the current one last."""
        known = {one: median(times) for one, times in self._seen[worker].items() if len(times) >= self._least}
        return {**{one: seconds for one, seconds in known.items() if one != size}, size: known[size]}


def side_by_side(seen: Mapping[int, Sequence[float]], rows: int = ROWS) -> list[dict[int, float]]:
    """``rows`` aligned iterations of all workers, spread evenly over the measured ones, late ones included."""
    return [{worker: own[row * len(own) // rows] for worker, own in seen.items()} for row in range(rows)]


def last_needed(times_s: Collection[float], spare: int) -> float:
    """The time at which all but ``spare`` workers have finished."""
    return sorted(times_s)[len(times_s) - 1 - spare] if len(times_s) > spare else inf


def _mean(paces: Sequence[Pace]) -> Pace:
    """The mean pace of several workers."""
    count = len(paces)
    return Pace(sum(pace.base_s for pace in paces) / count, sum(pace.per_sample_s for pace in paces) / count)
