"""Or et al.'s autoscaling: asynchronous training that gets more workers while the last ones have helped enough.

Symbols: N workers, R(N) their throughput, s_k the marginal gain of step k.

1. R(N) is measured for ``min_iters`` iterations, without the first after a change (``autoscale``).
2. A worker whose moving average of throughput over the median worker's is below ``slow_below`` is replaced by one on
   another machine (``replacing``); steps 3 and 4 wait.
3. Only one size is known, or s_k = ((R(N) - R(N')) / (N - N')) / (R(N') / N') > ``threshold`` with N' the size before:
   ``step_workers`` more, as far as ``cores_total`` allows (``autoscaling``).
4. Otherwise the job returns to N' and stays there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.elastic.or_autoscale.autoscaling import Autoscaling, AutoscalingPlanner
from strategies.parts.checks import check_choice, check_whole
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.parts.scaling.fleet import Fleet
from strategies.parts.scaling.scaler import Scaler
from strategies.parts.scaling.usage import Given
from strategies.protocol import CoresAs


@final
@dataclass(kw_only=True)
class OrAutoscale(Composition):
    """Grows by ``step_workers`` while each new worker adds more than ``threshold`` of an old one's throughput.

    Source: Or, Zhang and Freedman, "Resource elasticity in distributed deep learning", MLSys 2020, as the baseline of
    DLRover (Wang et al., arXiv:2304.01468, section 6.3): 4 workers at a time for Wide & Deep, a threshold of 0.3, one
    adjustment in three minutes. Servers stay as they are.

    A size is measured for ``min_iters`` iterations. If it gained too little, the job returns to the size before and
    stays there. A worker whose throughput stays low is replaced first, by one on another machine.

    Departures: the original sums gradients by all-reduce; here training is ASP with dynamic shards and servers, as in
    DLRover's comparison, and a worker's batch is that of the start whatever their number is.

    Attributes:
        cores_total: of all workers and servers together.
        server_cores: of every server.
        worker_cores: of every worker.
        unit_cores: cores of the job's machines in one of these; see :class:`strategies.parts.scaling.fleet.Fleet`.
        cores_as: what a node's cores are: a ``limit``, or a guaranteed ``request``, beyond which it may use idle ones.
        memory_bytes: of every node.
        limit_memory: whether new nodes have that limit; it needs control groups.
        step_workers: workers added at a time.
        threshold: least throughput that each new worker adds, relative to each of those before.
        min_iters: iterations, each of an update of every worker, for which a size is measured; one more is skipped.
        adjust_every_s: seconds from one decision to the next.
        decide_every_s: seconds between two questions to the planner.
        slow_weight: of a worker's newest iteration in its moving average.
        slow_below: average throughput, relative to the median worker's, below which a worker is replaced.
        seamless: workers train while new ones start; False: all stop first, and restart (native TensorFlow).
        launch_s: seconds that new nodes may take to join.
        drain_s: seconds that gradients may take to arrive before parameters move.
        data: allocation policy of the samples, ``dynamic`` or ``shared``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    cores_total: int = 200
    server_cores: int = 16
    worker_cores: int = 3
    unit_cores: float = 1.0
    cores_as: CoresAs = "limit"
    memory_bytes: int = 8 * 2**30
    limit_memory: bool = True
    step_workers: int = 4
    threshold: float = 0.3
    min_iters: int = 10
    adjust_every_s: float = 180.0
    decide_every_s: float = 5.0
    slow_weight: float = 0.1
    slow_below: float = 0.8
    seamless: bool = False
    launch_s: float = 600.0
    drain_s: float = 60.0
    data: str = "dynamic"
    lr_rule: str = "unit"

    def compose(self) -> Parts:
        """A gate for every gradient, and the autoscaling as the only action."""
        check_choice("cores_as", self.cores_as, "limit", "request")
        check_whole("server_cores", self.server_cores, least=1)
        settings = Autoscaling(
            cores_total=self.cores_total,
            worker_cores=self.worker_cores,
            memory_bytes=self.memory_bytes,
            step_workers=self.step_workers,
            threshold=self.threshold,
            min_iters=self.min_iters,
            adjust_every_s=self.adjust_every_s,
            slow_weight=self.slow_weight,
            slow_below=self.slow_below,
        )
        fleet = Fleet(
            worker=Given(cores=self.worker_cores, memory_bytes=self.memory_bytes),
            server=Given(cores=self.server_cores, memory_bytes=self.memory_bytes),
            unit_cores=self.unit_cores,
            limit_memory=self.limit_memory,
        )
        planner = AutoscalingPlanner(settings)
        scaler = Scaler(planner, fleet, seamless=self.seamless, launch_s=self.launch_s, drain_s=self.drain_s)
        return Parts(
            gate=EachGate(), actions={"autoscale": scaler}, decide_every_s=self.decide_every_s, lr_rule=self.lr_rule
        )
