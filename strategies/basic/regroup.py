"""Clusters of workers that are about equally fast, formed again from time to time (STAR, section IV-B; pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, final

from strategies.parts.checks import NonNegativeFloat, PositiveInt, check_settings
from strategies.parts.gates.base import Verdict
from strategies.parts.gates.groups import GroupsGate
from strategies.parts.hooks import Peers
from strategies.parts.monitoring.base import ExpectsTimes
from strategies.parts.monitoring.clustering import cluster_by_ratio
from strategies.protocol import AnyEvent, Arrived, Lost, Restored, Started


@final
@dataclass(kw_only=True)
class Regroup:
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

    def __post_init__(self) -> None:
        check_settings(self)

    def meet(self, peers: Peers) -> None:
        """Keep the gate to regroup, and the detector that expects times."""
        self._gate = peers.one(GroupsGate)
        self._expected: ExpectsTimes = peers.one(ExpectsTimes)  # type: ignore[type-abstract]

    def start(self, started: Started) -> None:
        """Reset: no time is known."""
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
                return self._regrouped(event.t)
            case Restored(workers=workers):
                return self._gate.regroup(self._clusters(workers))  # completes no round: all are about to compute
            case _:
                return ()

    def _regrouped(self, t: float) -> Sequence[Verdict]:
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
