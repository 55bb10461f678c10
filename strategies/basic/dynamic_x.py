"""Dynamic x-order: workers that are about equally fast make their updates together; clusters by their recent times."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, final

from reading.ranges import Checked, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import GroupsGate
from strategies.parts.gates.base import Verdict
from strategies.parts.hooks import Peers
from strategies.parts.monitoring.base import ExpectsTimes, Warmup, cluster_by_ratio
from strategies.protocol import AnyEvent, Arrived, Lost, Restored, Started


@final
@dataclass
class OwnTimes(Checked):
    """Own times (:attr:`strategies.protocol.Timings.own_s`) of the last ``window_s`` seconds, by worker.

    Whole batches only, without the first ``warmup_iters`` of a process. Where iterations take longer than the window it
    holds the newest one.

    Attributes:
        window_s: seconds over which times are averaged.
        warmup_iters: first iterations of a process that are ignored.
    """

    window_s: PositiveFloat = 6.0
    warmup_iters: NonNegativeInt = 3

    def start(self, started: Started) -> None:
        self._warmup = Warmup(self.warmup_iters)
        self._records: dict[int, deque[tuple[float, float]]] = {}

    def observe_event(self, event: AnyEvent) -> None:
        """Record a usable iteration's time; a lost worker's next process is measured from the beginning."""
        if isinstance(event, Lost):
            self._records.pop(event.worker, None)
        elif isinstance(event, Arrived) and self._warmup.tells(event):
            records = self._records.setdefault(event.grad.worker, deque())
            records.append((event.t, event.timings.own_s))
            while records[0][0] < event.t - self.window_s:
                records.popleft()

    def expected_s(self, worker: int, t: float) -> float | None:
        """Expected seconds of the next iteration: the mean of the window at ``t``; None if it is empty."""
        recent = [seconds for at_s, seconds in self._records.get(worker, ()) if at_s >= t - self.window_s]
        return sum(recent) / len(recent) if recent else None


@final
@dataclass(kw_only=True)
class Regroup(Checked):
    """Forms the clusters again after every ``regroup_iters`` iterations of all workers on average.

    A worker that restarts, or takes longer than the detector's window, keeps its last known time; one without any gets
    the median of the others. At first all workers are one cluster.

    Attributes:
        tolerance_frac: part of the fastest member's time by which the slowest of a cluster may take longer.
        regroup_iters: iterations of every worker on average from one clustering to the next.
    """

    looks_at: ClassVar[tuple[type, ...]] = (GroupsGate, ExpectsTimes)

    tolerance_frac: NonNegativeFloat = 0.2
    regroup_iters: PositiveInt = 5

    def meet(self, peers: Peers) -> None:
        self._gate = peers.one(GroupsGate)
        self._expected: ExpectsTimes = peers.one(ExpectsTimes)  # type: ignore[type-abstract]

    def start(self, started: Started) -> None:
        self._times_s: dict[int, float] = {}
        self._since = 0

    def observe_event(self, event: AnyEvent) -> None:
        """Forget the time of a worker that has left."""
        if isinstance(event, Lost) and not event.restarting:
            self._times_s.pop(event.worker, None)

    def then(self, event: AnyEvent) -> Sequence[Verdict]:
        """Regroup if it is time, and return the updates of the clusters that are complete thereby."""
        match event:
            case Arrived(grad=grad) if grad.samples:
                return self._regroup_if_due(event.t)
            case Restored(workers=workers):
                return self._gate.regroup(self._clusters(workers))  # completes no round: all are about to compute
            case _:
                return ()

    def _regroup_if_due(self, t: float) -> Sequence[Verdict]:
        self._since += 1
        if self._since < self.regroup_iters * len(self._gate.members):
            return ()
        self._since, members = 0, sorted(self._gate.members)
        for worker in members:
            if (expected_s := self._expected.expected_s(worker, t)) is not None:
                self._times_s[worker] = expected_s
        return self._gate.regroup(self._clusters(members))

    def _clusters(self, workers: Iterable[int]) -> list[list[int]]:
        """The workers by expected time, fastest first."""
        workers = list(workers)
        if not self._times_s:
            return [workers]
        usual_s = median(self._times_s.values())
        times_s = [self._times_s.get(worker, usual_s) for worker in workers]
        return [[workers[index] for index in group] for group in cluster_by_ratio(times_s, 1 + self.tolerance_frac)]


@final
@dataclass(kw_only=True)
class DynamicX(Composition):
    """Workers are clustered by their predicted iteration times; every cluster updates the parameters by itself.

    Source: STAR, section IV-B (dynamic-x-order: agglomerative clustering; here with complete linkage: beginning with
    single workers, the two neighbours with the smallest ratio of slowest to fastest are joined while that is at most 1
    + ``tolerance_frac``). Decided at ``Arrived``: the last gradient of a cluster makes an update of the whole cluster,
    with the learning rate scaled by its share of the global batch; after every ``regroup_iters`` iterations of all
    workers on average, the clusters are formed again. Waiting gradients move with their workers, and a cluster that a
    move makes complete updates at once.

    Where the paper is silent: the times of a cluster differ by at most ``tolerance_frac``, STAR's own bound of a
    straggler (its code cuts at 50 ms, whatever the scale). The prediction is the mean over the last ``window_s`` of the
    worker's own time (loading, computing, its link both ways). A worker that restarts or takes longer than the window
    keeps its last prediction; one without any gets the median of the others. At first all workers are one cluster.

    Attributes:
        tolerance_frac: part of the fastest member's time by which the slowest of a cluster may take longer.
        regroup_iters: iterations of every worker on average from one clustering to the next.
        window_s: seconds over which times are averaged.
        warmup_iters: first iterations of a process that are ignored.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    tolerance_frac: float = 0.2
    regroup_iters: int = 5
    window_s: float = 6.0
    warmup_iters: int = 3
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def compose(self) -> Parts:
        detectors = {"times": self.make(OwnTimes)}
        return self.make(Parts, gate=GroupsGate(), detectors=detectors, schedule=self.make(Regroup))
