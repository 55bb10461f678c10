"""How long every worker takes for how many samples: given once and for all, or equal at first and then measured (pure).

An iteration takes what it takes whatever its size, and something for each sample: ``base_s + per_sample_s * samples``.
Samples per second alone would take a worker with a small share for a slow one. One size does not tell the two apart, so
the first measurement says as much as throughputs do (base 0, the papers' model), and shares that it changes give a
second size. Times are medians: a window of delays or a slow iteration among many is none of a worker's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from math import inf
from statistics import median
from typing import NamedTuple, final

from strategies.monitoring.warmup import Warmup
from strategies.protocol import Arrived

WARMUP_ITERS = 3
"""First iterations of a process that count for nothing."""
PATIENCE = 3
"""Times as many rounds as iterations are asked for: after these, less is enough of those who are late every time."""
LEAST_ITERS = 3
"""Iterations that are enough of them, and of a size that is no longer in use."""
ROWS = 10
"""Iterations of everybody that codes are compared by."""
APART = 0.25
"""Two sizes tell base and slope apart if they differ by this part of the larger: times of equal work vary, too."""


class Pace(NamedTuple):
    """Seconds of an iteration, without waiting and receiving; in any unit where throughputs were given."""

    base_s: float
    per_sample_s: float

    def seconds(self, samples: float) -> float:
        """Of so many samples; none take no time."""
        return self.base_s + self.per_sample_s * samples if samples else 0.0


def fitted(times_s: Mapping[int, float]) -> Pace | None:
    """Base and slope from the times of two sizes (the last two); None: they do not tell, or contradict each other."""
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
    """``known`` holds every worker's pace as the next code will take it.

    Args:
        workers: of the job's start.
        given: their throughputs, in any unit; None: equal.
        num_iters: iterations that a measurement takes; 0: what is given stays.

    ``_base_samples``: what every iteration takes, as a number of samples that take as long.
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
        """A gradient has arrived."""
        if not self.num_iters or not self._warmup.tells(event):
            return
        by_size = self._seen.setdefault(event.grad.worker, {})
        by_size.setdefault(event.grad.samples, deque(maxlen=self.num_iters)).append(event.timings.iter_s)

    def of(self, workers: Sequence[int]) -> dict[int, Pace]:
        """Of these; one that is new counts as the mean of the others until it is measured."""
        old = [self.known[worker] for worker in workers if worker in self.known]
        mean = _mean(old) if old else Pace(0.0, 1.0)
        self.known |= {worker: mean for worker in workers if worker not in self.known}
        return {worker: self.known[worker] for worker in workers}

    def of_now(self, assigned: Mapping[int, int], spare: int) -> dict[int, tuple[float, ...]] | None:
        """Seconds of every worker's last iterations of the size that it has now; None until they are known.

        To be asked once a round.

        After a while a few iterations are enough, and up to ``spare`` may never have answered: they are left out.
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

    def refused(self) -> None:
        """What was measured led to no code: that is not asked again for a while, each time for twice as long."""
        self._pause *= 2
        self._next = self._rounds + self._pause

    def renew(self, assigned: Mapping[int, int]) -> None:
        """There is a new code: of every worker the last size before this one stays known, and nothing older."""
        self._rounds, self._pause, self._next = 0, self.num_iters, self.num_iters
        for worker, samples in assigned.items():
            own = self._seen.get(worker, {})
            told = [size for size, times in own.items() if size != samples and len(times) >= self._least]
            self._seen[worker] = {size: own[size] for size in told[-1:]}

    def _learn(self, now_s: Mapping[int, float], assigned: Mapping[int, int]) -> None:
        """Paces of who was measured: as long as each took, divided into base and slope as most workers' sizes tell.

        A worker's own two sizes would not do: a delay that began between them looks like a slope.
        """
        fits = (fitted(self._sizes_of(worker, assigned[worker])) for worker in now_s)
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
        """Median times of the sizes that are known, that of now last."""
        known = {one: median(times) for one, times in self._seen[worker].items() if len(times) >= self._least}
        return {**{one: seconds for one, seconds in known.items() if one != size}, size: known[size]}


def side_by_side(seen: Mapping[int, Sequence[float]], rows: int = ROWS) -> list[dict[int, float]]:
    """So many iterations of everybody next to each other, spread over what was seen, late ones among them."""
    return [{worker: own[row * len(own) // rows] for worker, own in seen.items()} for row in range(rows)]


def last_needed(times_s: Collection[float], spare: int) -> float:
    """When all but so many have finished."""
    return sorted(times_s)[len(times_s) - 1 - spare] if len(times_s) > spare else inf


def _mean(paces: Sequence[Pace]) -> Pace:
    """Of workers: as long as they take on average."""
    count = len(paces)
    return Pace(sum(pace.base_s for pace in paces) / count, sum(pace.per_sample_s for pace in paces) / count)
