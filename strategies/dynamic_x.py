"""Dynamic x-order: workers that are about equally fast make their updates together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import final

from strategies.checks import check_number, check_whole
from strategies.gated import GatedStrategy
from strategies.gates import Gate, GroupsGate
from strategies.protocol import AnyCommand, AnyEvent, Arrived, Lost, Started
from strategies.watching.clustering import cluster_by_ratio
from strategies.watching.own_times import OwnTimes
from strategies.weights import check_lr_rule


@final
@dataclass(kw_only=True)
class DynamicX(GatedStrategy):
    """Workers are clustered by their predicted iteration times; every cluster updates the parameters by itself.

    Source: STAR, section IV-B (dynamic-x-order: agglomerative clustering). Decided at ``Arrived``: the last gradient of
    a cluster makes an update of the whole cluster, with the learning rate scaled by its share of the global batch; and
    after every ``regroup_iters`` iterations of all workers on average the clusters are formed anew. Gradients that wait
    go with their workers, and a cluster that is complete by the move makes its update at once.

    Where the paper is silent: the times of a cluster differ by at most ``tolerance_frac``, STAR's own bound of a
    straggler (its code cuts at 50 ms, whatever the scale). The prediction is the mean over the last ``window_s`` of the
    worker's own time (loading, computing, its link both ways); the last one known holds for a worker that restarts or
    takes longer than the window, the median of the others for one of which nothing is known. All workers are one
    cluster to begin with.

    Attributes:
        tolerance_frac: part of the fastest member's time by which the slowest of a cluster may take longer.
        regroup_iters: iterations of every worker on average from one clustering to the next.
        window_s: seconds over which times are averaged.
        warmup_iters: first iterations of a process that count for nothing.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.weights`.
    """

    tolerance_frac: float = 0.2
    regroup_iters: int = 5
    window_s: float = 6.0
    warmup_iters: int = 3
    data: str = "dynamic"
    lr_rule: str = "batch_linear"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number("tolerance_frac", self.tolerance_frac, 0.0)
        check_whole("regroup_iters", self.regroup_iters, 1)
        check_number("window_s", self.window_s, above=0.0)
        check_whole("warmup_iters", self.warmup_iters)
        check_lr_rule(self.lr_rule)

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """Clusters as they are known now."""
        self._groups = GroupsGate(self._clusters(workers))
        return self._groups

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Measure, ask the gate, and cluster anew when it is time."""
        if isinstance(event, Started):
            self._own = OwnTimes(self.window_s, self.warmup_iters)
            self._times_s: dict[int, float] = {}
            self._since = 0
        if isinstance(event, Arrived):
            self._own.arrived(event)
        elif isinstance(event, Lost):
            self._own.gone(event.worker)
            if not event.restarting:
                self._times_s.pop(event.worker, None)
        commands = list(super().handle(event))
        if isinstance(event, Arrived) and event.grad.samples:
            commands += self._regrouped(event.t)
        return commands

    def _regrouped(self, t: float) -> list[AnyCommand]:
        """What new clusters make complete, when it is time for new clusters."""
        members = sorted(self._groups.members())
        self._since += 1
        if self._since < self.regroup_iters * len(members):
            return []
        self._since = 0
        for worker in members:
            if (mean_s := self._own.mean_s(worker, t)) is not None:
                self._times_s[worker] = mean_s
        verdicts = self._groups.regroup(self._clusters(members))
        return [command for verdict in verdicts for command in self._carry_out(verdict)]

    def _clusters(self, workers: Iterable[int]) -> list[list[int]]:
        """The workers by predicted time, fastest first."""
        workers = list(workers)
        if not self._times_s:
            return [workers]
        usual_s = median(self._times_s.values())
        times_s = [self._times_s.get(worker, usual_s) for worker in workers]
        return [[workers[index] for index in group] for group in cluster_by_ratio(times_s, 1 + self.tolerance_frac)]
