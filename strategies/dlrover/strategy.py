"""DLRover: asynchronous training whose workers and servers grow while it runs, by a plan from what they use.

Symbols: N_w workers of w cores, servers of s cores each (``server_cores``), s_total of all; w_hat and s_hat the cores
that a worker, and all servers for one worker, really use; C_total ``cores_total``, C_max ``cores_max``; K the job's
steps.

1. Model (Eq. 1; ``throughput``): R = sum_i B_w / (t_io + W_c / (r min(w_i, w_hat)) + W_u / (r min(s_avail, s_hat))). So
   more than w_hat cores per worker, or more workers than the servers have s_hat for, are wasted.
2. Create (``history``): the first nodes, of the job or as earlier jobs have ended (hot start).
3. Sample (``sampling``, ``stages``): for ``sample_s`` or ``sample_steps``, one worker (after a hot start: those there
   are) shows w_hat and s_hat; a server at ``hot_util`` of its cores is enlarged, and the sample repeated.
4. Optimise servers (Eq. 7 to 11; ``plan``): w = ceil(w_hat), N_w = floor(C_total / (w_hat + s_hat)), s_total = C_total
   - N_w w, in whole servers of s.
5. Optimise workers: w_hat is measured again with these servers, and workers are added up to floor((C_total - N_w w_hat)
   / s_hat), as far as cores are left.
6. Adjust, every ``adjust_every_s``, the first rule that matches (5.4; ``adjust``): servers at ``hot_util`` of their
   cores get min(used / used_total s_hat N_w, C_max); servers below ``idle_util`` of theirs correct s_hat and get
   min(s_total / s_hat, sqrt(K)) - N_w more workers, of low priority beyond C_total; a worker without progress for
   ``hang_s`` is restarted (one that is slow only draws fewer shards); a straggling server with more load than others
   gets more cores; one without moves. A node that ran out of memory gets twice as much, or there are twice as many
   servers (``memory``).
7. A change (5.3; ``strategies.parts.scaling``): training continues until new nodes are there; then gradients drain, a
   checkpoint, the parameters are divided again. ``brain`` makes one at a time, ``min_interval_s`` apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.dlrover.adjust import Rules
from strategies.dlrover.history import FinishedJob, InitialPlan, Margins, check_history, initial_plan
from strategies.dlrover.plan import Limits
from strategies.dlrover.planner import BrainPlanner
from strategies.dlrover.settings import BrainSettings
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
class DLRover(Composition):
    """Starts with the job's nodes, samples what they use, plans servers, then workers, and adjusts both from then on.

    Source: Wang et al., "DLRover: an elastic deep training extension with auto job resource recommendation",
    arXiv:2304.01468, 2023: the Brain of sections 4.2 and 4.3, the rules of 5.4, and the seamless switch of 5.3.
    Training is ASP with dynamic shards; a worker's batch is that of the start whatever their number is, so updates grow
    with it.

    Departures: present workers get more or fewer cores in place (``Allocate``) where the paper starts other pods; see
    also :mod:`strategies.dlrover.adjust` and :mod:`strategies.dlrover.plan`.

    Attributes:
        cores_total: of all workers and servers together (the paper's C_total: 200).
        cores_max: of one node (C_max: 32).
        server_cores: of a planned server (16).
        worker_cores: what every worker has at the start.
        first_server_cores: what every server has at the start.
        unit_cores: cores of the job's machines in one of these; see :class:`strategies.parts.scaling.fleet.Fleet`.
        cores_as: what a node's cores are: a ``limit``, or a guaranteed ``request``, beyond which it may use idle ones.
        memory_bytes: of every node at the start.
        limit_memory: whether new nodes have that limit, and DLRover's replacements theirs; it needs control groups.
        sample_s: seconds after which a sample is complete, or after ``sample_steps`` updates (60 s, 100).
        sample_steps: see there.
        adjust_every_s: seconds between two looks at a running job.
        ps_interval_s: seconds between two changes of servers by these looks.
        min_interval_s: seconds from the end of one change to the next (60).
        decide_every_s: seconds between two questions to the Brain.
        hot_util: part of its cores from which on a server is hot (0.9).
        idle_util: part of all servers' cores below which they are idle.
        load_ratio: a server that uses more than so many times the mean has more load than others.
        busy_ratio: a server that is busy so many times the mean time is straggling.
        hang_s: seconds without progress after which a worker is restarted.
        min_gain: least rise of used server cores by added workers for which more are added; 0: the paper's rule.
        max_shortfall_frac: part of what the workers need that planned servers may lack.
        workers_max: workers that the rules add at most, those of low priority among them; null: no bound but the root
            of the job's steps.
        seamless: workers train while new servers start; False: all stop first, and restart (native TensorFlow).
        launch_s: seconds that new servers may take to join.
        drain_s: seconds that gradients may take to arrive before parameters move.
        history: finished jobs to begin from (hot start), the oldest first; none: cold.
        history_of: name of the workload, and of its data set, by which they are chosen.
        data: allocation policy of the samples, ``dynamic`` or ``shared``.
        lr_rule: see :mod:`strategies.parts.weights`.
    """

    cores_total: int = 200
    cores_max: int = 32
    server_cores: int = 16
    worker_cores: int = 16
    first_server_cores: int = 16
    unit_cores: float = 1.0
    cores_as: CoresAs = "limit"
    memory_bytes: int = 8 * 2**30
    limit_memory: bool = True
    sample_s: float = 60.0
    sample_steps: int = 100
    adjust_every_s: float = 180.0
    ps_interval_s: float = 600.0
    min_interval_s: float = 60.0
    decide_every_s: float = 5.0
    hot_util: float = 0.9
    idle_util: float = 0.9
    load_ratio: float = 1.2
    busy_ratio: float = 1.5
    hang_s: float = 600.0
    min_gain: float = 0.2
    max_shortfall_frac: float = 0.1
    workers_max: int | None = None
    seamless: bool = True
    launch_s: float = 600.0
    drain_s: float = 60.0
    history: tuple[FinishedJob, ...] = ()
    history_of: tuple[str, str] = ("", "")
    data: str = "dynamic"
    lr_rule: str = "unit"

    watches_use = True

    def compose(self) -> Parts:
        """A gate for every gradient, and the Brain as the only action."""
        check_choice("cores_as", self.cores_as, "limit", "request")
        check_whole("worker_cores", self.worker_cores, least=1)
        check_whole("first_server_cores", self.first_server_cores, least=1)
        check_history(self.history, self.history_of)
        self._refuse_totals()
        limits = Limits(
            cores_total=self.cores_total,
            cores_max=self.cores_max,
            server_cores=self.server_cores,
            max_shortfall_frac=self.max_shortfall_frac,
            workers_max=self.workers_max,
        )
        rules = Rules(
            hot_util=self.hot_util,
            idle_util=self.idle_util,
            load_ratio=self.load_ratio,
            busy_ratio=self.busy_ratio,
            hang_s=self.hang_s,
            min_gain=self.min_gain,
        )
        settings = BrainSettings(
            limits=limits,
            rules=rules,
            memory_bytes=self.memory_bytes,
            sample_s=self.sample_s,
            sample_steps=self.sample_steps,
            adjust_every_s=self.adjust_every_s,
            ps_interval_s=self.ps_interval_s,
            min_interval_s=self.min_interval_s,
        )
        fleet = Fleet(
            worker=Given(cores=self.worker_cores, memory_bytes=self.memory_bytes),
            server=Given(cores=self.first_server_cores, memory_bytes=self.memory_bytes),
            unit_cores=self.unit_cores,
            limit_memory=self.limit_memory,
        )
        requests = self.cores_as == "request"
        planner = BrainPlanner(settings, self._initial(limits), self.unit_cores, requests=requests)
        scaler = Scaler(planner, fleet, seamless=self.seamless, launch_s=self.launch_s, drain_s=self.drain_s)
        return Parts(
            gate=EachGate(), actions={"brain": scaler}, decide_every_s=self.decide_every_s, lr_rule=self.lr_rule
        )

    def _refuse_totals(self) -> None:
        """Raise ``ValueError`` for a total that neither the first nodes nor any plan can keep."""
        for worker, server in ((self.worker_cores, self.first_server_cores), (1, self.server_cores)):
            if worker + server > self.cores_total:
                raise ValueError(
                    f"cores_total={self.cores_total}: a worker of {worker} and a server of {server} cores need "
                    f"{worker + server}"
                )

    def _initial(self, limits: Limits) -> InitialPlan | None:
        return initial_plan(self.history, *self.history_of, limits, Margins()) if self.history else None
