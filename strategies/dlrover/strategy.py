"""DLRover: asynchronous training whose workers and servers grow while it runs, by a plan from what they use.

Symbols: N_w workers of w cores, N_ps servers of s cores each (``server_cores``, 16), s_total = N_ps s; w_hat the cores
that a worker really uses, s_hat the cores that all servers together use for one worker; C_total ``cores_total`` (200),
C_max ``cores_max`` (32) of a node; K the job's steps. In Eq. 1: B a worker's batch, t_IO the time to read data and to
transfer, W_compute and W_update the work of computing and of updating, r the work that a core does per second.

1. Model (4.1, Eq. 1): R = sum_i B / (t_IO + W_compute / (r min(w_i, w_hat)) + W_update / (r min(s_avail, s_hat))).
   s_avail (our reading; printed: s_total) is s_total, or s_total / N_w if N_w s_hat > s_total. So cores above w_hat per
   worker, and workers above s_total / s_hat, are wasted. Steps 4 to 6 come close to these limits, above which whole
   cores and ``max_shortfall_frac`` may take them; no step solves Eq. 1.
2. Create (4.3; ``history``): the first nodes are the job's, or follow from the last five jobs of the same workload and
   data set, else of the same workload (hot start): servers for 1.5 times the most cores that servers used, the mean
   w_hat rounded up, the median number of workers.
3. Sample (4.2; ``brain``): for ``sample_s`` (60 s) or ``sample_steps`` (100), whichever is earlier, one worker (after a
   hot start: all of step 2) is observed. w_hat is the mean of used cores per worker, s_hat the used cores of all
   servers over N_w. If a server uses ``hot_util`` (0.9) of its cores, all servers get twice as many (with C_max each:
   their number doubles), as far as C_total allows, and the sample is repeated, three times at most.
4. Optimise servers (4.1, Eq. 7 to 11; ``plan``): w = ceil(w_hat), N_w = floor(C_total / (w_hat + s_hat)), s_total =
   C_total - N_w w, in whole servers of s. N_w is lowered until these lack at most ``max_shortfall_frac`` (0.1) of N_w
   s_hat. With the planned servers the workers of the sample get w cores. Present servers stay, and step 5 follows at
   once, if they have s cores each, are no fewer than planned, and leave cores for all but that part of N_w workers.
5. Optimise workers (4.2): after ``sample_s`` with the planned servers, w_hat is measured again. Workers of the new
   ceil(w_hat) cores are added up to N_w = s_total / s_hat, as far as cores are left. s_hat is the value of step 3, so
   by Eq. 10 and 11 this is the N_w of step 4. (``workers_by=room``: up to floor((C_total - N_w w_hat) / s_hat) with the
   new w_hat and the N_w of step 4.)
6. Adjust, every ``adjust_every_s`` (180 s), the first rule that matches (4.2, 5.4; ``adjust``); server j uses u_j
   cores:

   - hot server, u_j >= ``hot_util`` of its cores: it gets ceil(min(s_hat N_w u_j / sum_j u_j, C_max)) cores, u_j being
     the mean of three observations, if it has fewer;
   - idle servers, sum_j u_j < ``idle_util`` (0.9) s_total: s_hat = sum_j u_j / N_w, and workers are added until there
     are min(ceil(s_total / s_hat), floor(sqrt(K))); those beyond C_total have low priority. Not (ours) while a server
     is hot or slow (last rule), nor if this rule has added r N_w workers before, and sum_j u_j has risen since by less
     than the part ``min_gain`` (0.2) r;
   - a worker without progress for ``hang_s`` (600 s) is restarted (one that is slow only draws fewer shards);
   - a server that uses more than ``load_ratio`` (1.2) times the mean u_j: it gets more cores, as a hot server does;
   - slow server, which uses at most ``load_ratio`` times the mean, but is busy for ``busy_ratio`` (1.5) times the mean
     time: it moves to another machine.

   A rule that matches but would change servers less than ``ps_interval_s`` (600 s) after their last change keeps the
   later rules waiting. At any time: a worker that ran out of memory gets twice as much. If a server did, the number of
   servers doubles while the job is sampled or if servers are about equally full, else its memory does.
7. A change (5.3; ``strategies.parts.scaling``): training continues until new nodes are there; then gradients drain, a
   checkpoint is stored, and the parameters are divided again. ``brain`` makes one change at a time, ``min_interval_s``
   (60 s) apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from reading.ranges import PositiveInt
from strategies.dlrover.brain import BrainSettings
from strategies.dlrover.history import check_history, initial_plan
from strategies.dlrover.planner import BrainPlanner
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.parts.scaling.scaler import Scaler, ScalerSettings
from strategies.protocol import FinishedJob


@final
@dataclass(kw_only=True)
class DLRover(BrainSettings, ScalerSettings, Composition):
    """Starts with the job's nodes, samples what they use, plans servers, then workers, and adjusts both from then on.

    Source: Wang et al., "DLRover: an elastic deep training extension with auto job resource recommendation",
    arXiv:2304.01468, 2023: the Brain of sections 4.2 and 4.3, the rules of 5.4, and the seamless switch of 5.3.
    Training is ASP with dynamic shards; a worker's batch keeps its initial size, so an update covers more samples with
    more workers.

    Departures: present workers get more or fewer cores in place (``Allocate``) where the paper starts other pods. The
    paper samples with nodes of C_max cores. See also :mod:`strategies.dlrover.adjust`, :mod:`strategies.dlrover.plan`.

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
