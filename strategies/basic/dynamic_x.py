"""Dynamic x-order: workers that are about equally fast make their updates together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.basic.own_times import OwnTimes
from strategies.basic.regroup import Regroup
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import GroupsGate


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
        """A gate of groups, and a schedule that regroups workers by their own times."""
        return Parts(
            gate=GroupsGate(),
            detectors={"times": OwnTimes(self.window_s, self.warmup_iters)},
            schedule=Regroup(tolerance_frac=self.tolerance_frac, regroup_iters=self.regroup_iters),
            lr_rule=self.lr_rule,
        )
