"""Or et al.'s autoscaling: asynchronous training that gets more workers while the last ones have helped enough.

Symbols: N workers, R(N) their throughput, s_k the marginal gain of step k.

1. Measure (``autoscaling``): R(N), samples per second, over ``min_iters`` iterations, each of an update per worker,
   without the first after a change.
2. A worker is slow if its throughput over the median worker's, as a moving average (weight of the newest iteration:
   ``slow_weight``, 0.1), is below ``slow_below`` (0.8). Slow workers are replaced by others on other machines, and
   step 1 begins again.
3. Only one size is known, or s_k = ((R(N) - R(N')) / (N - N')) / (R(N') / N') > ``threshold`` with N' the size before:
   ``step_workers`` more. If ``cores_total`` does not allow them, the job stays at N.
4. Otherwise the job returns to N' and stays there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from reading.ranges import PositiveInt
from strategies.elastic.or_autoscale.autoscaling import Autoscaling, AutoscalingPlanner
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.parts.scaling.scaler import Scaler, ScalerSettings


@final
@dataclass(kw_only=True)
class OrAutoscale(Autoscaling, ScalerSettings, Composition):
    """Grows by ``step_workers`` while each new worker adds more than ``threshold`` of an old one's throughput.

    Source: Or, Zhang and Freedman, "Resource elasticity in distributed deep learning", MLSys 2020, as the baseline of
    DLRover (Wang et al., arXiv:2304.01468, section 6.3): 4 workers at a time for Wide & Deep, a threshold of 0.3, one
    adjustment in three minutes. Servers stay as they are.

    Departures: the original sums gradients by all-reduce; here training is ASP with dynamic shards and servers, as in
    DLRover's comparison, and a worker's batch keeps its initial size.

    Attributes:
        server_cores: of every server.
        seamless: workers train while new ones start; False: all stop first, and restart (native TensorFlow).
    """

    server_cores: PositiveInt = 16
    seamless: bool = False

    def compose(self) -> Parts:
        scaler = self.make(Scaler, planner=AutoscalingPlanner(self.make(Autoscaling)))
        return self.make(Parts, gate=EachGate(), actions={"autoscale": scaler})
