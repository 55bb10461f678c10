"""Or et al.'s autoscaling: workers are added by steps while the last ones helped, and slow ones are replaced (pure).

After Or, Zhang and Freedman, "Resource elasticity in distributed deep learning", MLSys 2020; threshold and steps as in
the comparison of DLRover section 6.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, final

from reading.ranges import NonNegativeFloat, PositiveFloat, PositiveFrac, PositiveInt
from strategies.parts.hooks import State
from strategies.parts.scaling.changes import AddWorkers, Change, Decision, Replace, Resize
from strategies.parts.scaling.usage import Given
from strategies.protocol import (
    AnyEvent,
    Arrived,
    Grad,
    Joined,
    Lost,
    NodeId,
    Restored,
    ServerLost,
    Started,
)


def marginal_gain(old_workers: int, old_rate: float, new_workers: int, new_rate: float) -> float:
    """Throughput that each worker between two sizes adds, relative to a worker's throughput at the smaller size.

    1: linear speed-up; 0: none. Throughputs in any unit, ``old_rate`` above zero.
    """
    return (new_rate - old_rate) / (new_workers - old_workers) / (old_rate / old_workers)


@dataclass(kw_only=True)
class Autoscaling:
    """How much a job grows, and how much that must help; values come from DLRover's comparison where it has any.

    Attributes:
        cores_total: of all workers and servers together; no size that exceeds it is tried.
        memory_bytes: of every worker.
        worker_cores: of every worker.
        step_workers: added at a time (4 for Wide & Deep, 1 for xDeepFM).
        threshold: least throughput that each new worker adds, relative to each of those before.
        min_iters: iterations, each of an update of every worker, for which a size is measured; one more is skipped.
        adjust_every_s: seconds from one decision to the next (180).
        slow_weight: of a worker's newest iteration in its moving average.
        slow_below: average throughput, relative to the median worker's, below which a worker is replaced.
    """

    cores_total: PositiveInt = 200
    memory_bytes: PositiveInt = 8 * 2**30
    worker_cores: PositiveInt = 3
    step_workers: PositiveInt = 4
    threshold: NonNegativeFloat = 0.3
    min_iters: PositiveInt = 10
    adjust_every_s: PositiveFloat = 180.0
    slow_weight: PositiveFrac = 0.1
    slow_below: PositiveFrac = 0.8


@final
class Autoscaler:
    """Grows by ``step_workers`` while the marginal gain is above the threshold; otherwise goes back one size and stays.

    Args:
        settings: by how much it grows, and how much that must help.
        workers: at the start.
        max_workers: no size above this is tried; None: no bound.
    """

    def __init__(self, settings: Autoscaling, workers: int, max_workers: int | None = None) -> None:
        self.settings, self.workers, self.max_workers = settings, workers, max_workers
        self.rates: dict[int, float] = {}
        self.gains: dict[int, float] = {}
        self.stays = False
        self._passed: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._iterations, self._samples, self._seconds = -1, 0, 0.0

    def observe(self, samples: int, seconds: float) -> None:
        """The job has taken so long for an iteration of so many samples."""
        self._iterations += 1
        if self._iterations:
            self._samples += samples
            self._seconds += seconds

    def take_size(self, workers: int) -> None:
        """So many workers there are now, whether asked for, denied or lost: measured from the beginning."""
        refused = self._passed is not None and workers <= self._passed
        self.workers = workers
        self.stays = self.stays or refused
        self._begin()

    def decide(self) -> int | None:
        """The number of workers that there should be instead; None: those there are, for now or for good."""
        if self.stays or self._iterations < self.settings.min_iters or not self._seconds:
            return None
        self.rates[self.workers] = rate = self._samples / self._seconds
        if self._passed is not None:
            gain = marginal_gain(self._passed, self.rates[self._passed], self.workers, rate)
            self.gains[self.workers] = gain
            if gain <= self.settings.threshold:
                self.stays = True
                return self._passed
        larger = self.workers + self.settings.step_workers
        if self.max_workers is not None and larger > self.max_workers:
            self.stays = True
            return None
        self._passed = self.workers
        return larger


@final
class SlowWorkers:
    """A moving average of each worker's throughput, relative to the median of all that have been measured.

    A new worker begins at 1, so that one slow iteration does not flag it.
    """

    def __init__(self, settings: Autoscaling) -> None:
        self.settings = settings
        self.average: dict[int, float] = {}
        self._rates: dict[int, float] = {}

    def observe(self, worker: int, rate: float) -> None:
        """A worker's throughput in its last iteration, in any unit above zero."""
        self._rates[worker] = rate
        share, weight = rate / median(self._rates.values()), self.settings.slow_weight
        self.average[worker] = (1 - weight) * self.average.get(worker, 1.0) + weight * share

    def forget(self, worker: int) -> None:
        """It has left, or another process has its number."""
        self._rates.pop(worker, None)
        self.average.pop(worker, None)

    def keep_only(self, workers: Collection[int]) -> None:
        """Forget all workers but these."""
        for worker in self._rates.keys() - set(workers):
            self.forget(worker)

    def slow(self) -> list[int]:
        """All that are slow, the slowest first."""
        found = [worker for worker, average in self.average.items() if average < self.settings.slow_below]
        return sorted(found, key=lambda worker: (self.average[worker], worker))


@final
class AutoscalingPlanner:
    """Adds workers while the last ones have helped enough; slow workers go first, since they lower every measurement.

    An iteration is as many updates as there are workers: in asynchronous training one of each, on average.
    """

    urgent: ClassVar[bool] = False

    def __init__(self, settings: Autoscaling) -> None:
        self.settings = settings

    def start(self, started: Started, given: Mapping[NodeId, Given]) -> None:
        settings = self.settings
        workers = len(started.workers)
        room = settings.cores_total - sum(given[node].cores for node in given if node.role == "server")
        self.autoscaler = Autoscaler(settings, workers, max(workers, room // settings.worker_cores))
        self.slow_workers = SlowWorkers(settings)
        self._under_way: tuple[Change, ...] = ()
        self._ended = False
        self._decided_s: float | None = None
        self._t = 0.0
        self._begin_iteration(0.0)

    def _begin_iteration(self, t: float) -> None:
        self._since_s, self._updates, self._samples = t, 0, 0

    def observe_event(self, event: AnyEvent, given: Mapping[NodeId, Given]) -> None:
        """Each worker's throughput, and what disturbs the job's."""
        self._t = event.t
        match event:
            case Arrived(grad=grad, timings=timings) if grad.samples and timings.own_s > 0:
                self.slow_workers.observe(grad.worker, grad.samples / timings.own_s)
            case Lost(worker=worker):
                self.slow_workers.forget(worker)
                self._restart_measurement(event.t)
            case Restored(workers=workers):
                self.slow_workers.keep_only(workers)  # workers that left meanwhile are not reported
                self._restart_measurement(event.t)
            case Joined() | ServerLost():
                self._restart_measurement(event.t)

    def _restart_measurement(self, t: float) -> None:
        """Measure the present size from the beginning."""
        if not self._under_way:
            self.autoscaler.take_size(self.autoscaler.workers)
            self._begin_iteration(t)

    def applied(self, grads: tuple[Grad, ...]) -> None:
        """Count an update; measurements taken while nodes change are void."""
        self._updates += 1
        self._samples += sum(grad.samples for grad in grads)
        if self._updates >= self.autoscaler.workers and not self._under_way:
            self.autoscaler.observe(self._samples, self._t - self._since_s)
            self._begin_iteration(self._t)

    def end_decision(self, t: float, granted: bool, given: Mapping[NodeId, Given]) -> None:
        """These workers are present now; one that was not replaced is measured from the beginning, too."""
        for change in self._under_way:
            if isinstance(change, Replace):
                self.slow_workers.forget(change.node.number)
        self._under_way = ()
        self.autoscaler.take_size(_workers(given))
        self._begin_iteration(t)

    # ---- what is decided ---------------------------------------------------------------------------------------------

    def decide(self, t: float, given: Mapping[NodeId, Given]) -> Decision | None:
        """Replace slow workers, else grow or go back one size."""
        early = self._decided_s is not None and t < self._decided_s + self.settings.adjust_every_s
        if self._under_way or early:
            return None
        if _workers(given) != self.autoscaler.workers:
            self.autoscaler.take_size(_workers(given))
            self._begin_iteration(t)
        slow = [node for number in self.slow_workers.slow() if (node := NodeId.worker(number)) in given]
        return self._replace(t, slow) if slow else self._resize(t)

    def _replace(self, t: float, slow: list[NodeId]) -> Decision:
        settings = self.settings
        changes = tuple(
            Replace(node=node, cores=settings.worker_cores, memory_bytes=settings.memory_bytes, elsewhere=True)
            for node in slow
        )
        return self._decide(t, "slow workers", changes, self.slow_workers.average[slow[0].number])

    def _resize(self, t: float) -> Decision | None:
        settings, before = self.settings, self.autoscaler.workers
        wanted = self.autoscaler.decide()
        gain = self.autoscaler.gains.get(before)
        if wanted is None:
            if not self.autoscaler.stays or self._ended:
                return None
            self._ended = True
            return self._decide(t, "stays", (), gain)
        if wanted > before:
            more = wanted - before
            change: Change = AddWorkers(count=more, cores=settings.worker_cores, memory_bytes=settings.memory_bytes)
            return self._decide(t, "more workers", (change,), gain)
        change = Resize(role="worker", count=wanted, cores=settings.worker_cores, memory_bytes=settings.memory_bytes)
        return self._decide(t, "no gain", (change,), gain)

    def _decide(self, t: float, rule: str, changes: tuple[Change, ...], value: float | None) -> Decision:
        """``value``: the marginal gain, or the slowest worker's average."""
        self._under_way, self._decided_s = changes, t
        name = "throughput" if rule == "slow workers" else "gain"
        numbers = {} if value is None else {name: value}
        rates = {f"samples_per_s_{workers}": rate for workers, rate in self.autoscaler.rates.items()}
        return Decision(t=t, stage="autoscale", rule=rule, changes=changes, numbers=numbers | rates)

    def log_state(self) -> State:
        return {"stays": int(self.autoscaler.stays)}


def _workers(given: Mapping[NodeId, Given]) -> int:
    return sum(node.role == "worker" for node in given)
