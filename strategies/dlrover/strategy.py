"""DLRover: asynchronous training whose workers and servers grow while it runs, by a plan from what they use.

Symbols: N_w workers of w cores, servers of s cores each (``server_cores``), s_total of all; w_hat and s_hat the cores
that a worker, and all servers for one worker, really use; C_total ``cores_total``, C_max ``cores_max``; K the job's
steps.

1. Model (Eq. 1): R = sum_i B_w / (t_io + W_c / (r min(w_i, w_hat)) + W_u / (r min(s_avail, s_hat))). So more than
   w_hat cores per worker, or more workers than the servers have s_hat for, are wasted.
2. Create (``history``): the first nodes, of the job or as earlier jobs have ended (hot start).
3. Sample (``brain``): for ``sample_s`` or ``sample_steps``, one worker (after a hot start: those there are) shows w_hat
   and s_hat; a server at ``hot_util`` of its cores is enlarged, and the sample repeated.
4. Optimise servers (Eq. 7 to 11; ``plan``): w = ceil(w_hat), N_w = floor(C_total / (w_hat + s_hat)), s_total = C_total
   - N_w w, in whole servers of s.
5. Optimise workers: w_hat is measured again with these servers, and workers are added up to floor((C_total - N_w w_hat)
   / s_hat), as far as cores are left.
6. Adjust, every ``adjust_every_s``, the first rule that matches (5.4; ``adjust``): servers at ``hot_util`` of their
   cores get min(used / used_total s_hat N_w, C_max); servers below ``idle_util`` of theirs correct s_hat and get
   min(s_total / s_hat, sqrt(K)) - N_w more workers, of low priority beyond C_total; a worker without progress for
   ``hang_s`` is restarted (one that is slow only draws fewer shards); a straggling server with more load than others
   gets more cores; one without moves. A node that ran out of memory gets twice as much, or there are twice as many
   servers.
7. A change (5.3; ``strategies.parts.scaling``): training continues until new nodes are there; then gradients drain, a
   checkpoint, the parameters are divided again. ``brain`` makes one at a time, ``min_interval_s`` apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from reading.ranges import PositiveInt
from strategies.dlrover.brain import BrainSettings
from strategies.dlrover.history import FinishedJob, check_history, initial_plan
from strategies.dlrover.planner import BrainPlanner
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.parts.scaling.scaler import Scaler, ScalerSettings


@final
@dataclass(kw_only=True)
class DLRover(BrainSettings, ScalerSettings, Composition):
    """Starts with the job's nodes, samples what they use, plans servers, then workers, and adjusts both from then on.

    Source: Wang et al., "DLRover: an elastic deep training extension with auto job resource recommendation",
    arXiv:2304.01468, 2023: the Brain of sections 4.2 and 4.3, the rules of 5.4, and the seamless switch of 5.3.
    Training is ASP with dynamic shards; a worker's batch is that of the start whatever their number is, so updates grow
    with it.

    Departures: present workers get more or fewer cores in place (``Allocate``) where the paper starts other pods; see
    also :mod:`strategies.dlrover.adjust` and :mod:`strategies.dlrover.plan`.

    Attributes:
        worker_cores: what every worker has at the start.
        first_server_cores: what every server has at the start.
        seamless: workers train while new servers start; False: all stop first, and restart (native TensorFlow).
        history: finished jobs to begin from (hot start), the oldest first; none: cold.
        history_of: name of the workload, and of its data set, by which they are chosen.
    """

    worker_cores: PositiveInt = 16
    first_server_cores: PositiveInt = 16
    seamless: bool = True
    history: tuple[FinishedJob, ...] = ()
    history_of: tuple[str, str] = ("", "")

    watches_use = True

    def compose(self) -> Parts:
        check_history(self.history, self.history_of)
        self._refuse_cores()
        settings = self.make(BrainSettings)
        initial = initial_plan(self.history, *self.history_of, settings) if self.history else None
        planner = BrainPlanner(settings, initial, self.unit_cores, requests=self.cores_as == "request")
        scaler = self.make(Scaler, planner=planner, server_cores=self.first_server_cores)
        return self.make(Parts, gate=EachGate(), actions={"brain": scaler})

    def _refuse_cores(self) -> None:
        """Raise ``ValueError`` for servers that no node holds, and for a total that no first nodes or plan can keep."""
        if self.server_cores > self.cores_max:
            raise ValueError(f"server_cores={self.server_cores}: above cores_max={self.cores_max} of one node")
        for worker, server in ((self.worker_cores, self.first_server_cores), (1, self.server_cores)):
            if worker + server > self.cores_total:
                raise ValueError(
                    f"cores_total={self.cores_total}: a worker of {worker} and a server of {server} cores need "
                    f"{worker + server}"
                )
