"""STAR: the mode of synchronisation with the least predicted time per unit of progress, chosen again and again.

Symbols: T_i is the predicted iteration time of worker i of N, d_i = T_i / min_j T_j - 1 its deviation, B (STAR: M) the
global batch, b = B / N a worker's batch, phi the gradient noise scale in samples (PGNS), n_u(m) = 1 + phi / m the
updates of m samples that make one unit of progress, t_x the mean seconds from one update of x gradients to the next.

1. Predict (IV-A; ``predicted``): every ``predict_every_iters`` (1) iterations of all workers on average, the mean T_i
   of the next ``horizon_iters`` (30). STAR's LSTM predicts from the last 100 iterations the processor and bandwidth
   that a worker receives, and a regression turns them into times; here ``predictor`` says how (``star``: so; shipped is
   ``last_value``), within 0.2 to 5 times the median of the last ``history_iters`` (100). Worker i is tagged if d_i >
   ``straggler_frac`` (0.2) in any of these iterations.
2. If no worker is tagged: SSGD from the next update on. Here the present mode stays if SSGD would not cost less
   (``when_calm=cheaper``).
3. Modes (IV-B; ``modal``): in static x-order any x gradients make an update; x = 1 is ASGD, x = N SSGD. In dynamic
   x-order each cluster of workers makes its own updates. A worker waits until its gradient is part of an update; no
   gradient is dropped. Clusters (``chooser``): in the order of T_i the two neighbours whose union has the least max T /
   min T are merged, while this ratio is at most 1 + ``cluster_frac`` (0.2). If a worker is tagged, a decision (steps 4
   to 9) follows when tags or clusters have changed, or when a T_i / min_j T_j has changed since the last decision by
   more than the factor 1 + ``cluster_frac``; else after ``redecide_iters`` (10). After k decisions in a row that paused
   (step 9) and changed nothing, the next begins decision_s min(2^k, 1 / ``max_pause_frac``) after the last one at the
   earliest (``max_pause_frac`` is 1 by default).
4. phi (IV-C1; ``noise``): a table by step (STAR), a number, or measured, from every 10th update or the first after it
   that has n > 1 gradients of one version; between them the last phi stands. Let the update have m samples, and
   gradient i the mean g_i over its m_i samples; L = sum_i (m_i / m) |g_i|^2 and Q = |sum_i (m_i / m) g_i|^2::

       phi = (m (L - Q) / (n - 1)) / ((n Q - L) / (n - 1))

   Numerator and denominator are moving averages, in which the old value has the weight 0.999^(m / b).
5. Cost of a mode: seconds per unit of progress (IV-C1; ``times``)::

       static x-order, x = 1 .. N:                T_x = n_u(x b) p t_x                     (Eq. 1)
       dynamic x-order, clusters c of n_c:        T_d = 1 / sum_c 1 / (n_u(n_c b) p t_c)   (Eq. 2)

   t_c is the largest T_i of cluster c. t_x comes from a simulation (``orders``): workers take T_i, the x that have
   finished first make an update and begin again, the others keep what they have; of max(200, 30 N / x) updates the
   first quarter does not count. p is the price of staleness: 1 in the paper, here 1 + kappa lag^2
   (``mode_cost=pooled``; kappa as fitted to the workload, else 16). If a gradient is stale by s global batches (an
   update of x gradients is x / N of one), its lag is s / (1 + s). The lag of a mode is the mean lag of its gradients,
   in dynamic x-order the mean lag of its updates. With more than 64 workers only some x are candidates: powers of two,
   and the sizes of the first clusters together.
6. The mode with the least cost is chosen (``choice``); ties: larger x, static before dynamic. The present mode stays
   unless another is better by more than ``min_gain_frac`` (0).
7. STAR-ML (IV-C2; ``learned``), if ``learning``; without this step it is STAR-H. A model predicts by which factor the
   cost of step 5 is wrong, from T_i, d_i, phi and the mode. (The paper's regressor needs no phi: it predicts the cost
   itself, from T_i, d_i, the model's type, learning rate and step.) It learns from the costs of all decisions by step
   5, and from the measured cost of modes that were kept for 20 updates or more. After 500 such costs and then every 50
   it is fitted again, and chooses modes for the newest fifth of the decisions. The model replaces step 5 while these
   choices cost at most ``max_regret_frac`` (5 %) more than the best on average. Every 10th of its decisions is then
   costed by step 5 as well, to learn from.
8. Prevention (IV-D1; ``demands``), if ``prevent``: before a mode is taken, the cluster is asked for its needs. With y
   gradients per update a server needs g (1 - (y - 1) / (N - 1)) more than in SSGD, g being its growth in ASGD
   (``cpu_growth_frac`` 0.43, ``link_growth_frac`` 0.18). A worker that waits less needs more, too (``check_workers``;
   STAR leaves workers out). If a host has too little, tasks of other jobs there give it
   (``strategies.cluster.prevention.star``): first workers that wait for a slower one of their group, then all in
   proportion to 1 / (S A); each keeps 10 % of its share. The sensitivity S = prod_j (TTA_j / TTA) compares the time to
   accuracy at throttling levels j with the unthrottled one (printed: prod_j ((TTA_j - TTA) / TTA)); A is the job's
   present gain, within 1e-4 to 1. The mode is refused if this is too little, or if the iterations of those jobs get
   longer by as many seconds as this job gains per global batch, (T_present - T) / n_u(B), or more (STAR: if S_w >=
   S_o). Then the next best mode that is better than the present one is asked for; if there is none, the present mode
   stays, until a decision 10 iterations later. SSGD needs nothing.
9. ``decision_s`` (0.97) later the gate changes its mode (``modal``): at once if an update was made meanwhile, else with
   the next update. During decision_s no worker begins to compute (``pause``). Gradients that wait are kept; the rate of
   an update of y gradients is (y / N) r_SSGD (``lr_rule``). STAR- does not pause: it decides for ``decision_s`` later,
   by predictions that much further ahead, and changes with the first update from then on.
10. Trees (IV-D2; ``strategies.parts.sending.tree``): where it is known whose gradients make an update, the
    ``tree_fanout`` (None: no tree) workers with the lowest latency are inner nodes, which add the gradients of as many
    children each.

Without servers (``ring``; IV-B): X workers are tagged. Modes are x = 0 .. X and, if x > 0, each t_w in ``waits_s``: the
x slowest leave the ring and become children of ring workers. A parent waits t_w after its own computation for their
gradients. A later one counts in the next update; one that misses this, too, is dropped. A decision follows when tags
have changed, else after ``redecide_iters``. The least T_a wins (ties: the least x, then the least t_w)::

       T_a = n_u((N - x + q) b) (t_ring + t_w)                                             (Eq. 3)

t_ring is the largest T_i in the ring; q children deliver within t_ring + t_w (our reading; printed: within t_w).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, final

from reading.ranges import Bool, NonNegativeFloat, OneOf
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import RingGate
from strategies.parts.sending.tree import with_tree
from strategies.star.choice import MODES, Choice
from strategies.star.chooser import CALM, ModeChooser
from strategies.star.deciding import DecisionSettings
from strategies.star.demands import DemandSettings, ModeDemands
from strategies.star.modal import ModalGate
from strategies.star.noise import FixedNoise, NoiseMeter, TabledNoise
from strategies.star.predicted import PredictedTimes, PredictionSettings
from strategies.star.ring import RingChooser
from strategies.star.ring_modes import WAITS_S, check_waits
from strategies.star.times import ModeTimes, kappa_for


@final
@dataclass(kw_only=True)
class Star(PredictionSettings, DecisionSettings, DemandSettings, Composition):
    """SSGD without stragglers; with some, the best of SSGD, ASGD, static and dynamic x-order.

    Source: STAR, sections IV-A to IV-D (STAR-H, STAR-ML and STAR-), for one job; the algorithm is above. Decided at
    ``Arrived``. Batches stay B / N. There are trees (``tree_fanout``) in SSGD and in every cluster of dynamic x-order,
    decided at ``Ready``. Step 8 needs ``prevent`` and a policy of the cluster that gives resources away.

    Departures: staleness has a price, because the printed equations always choose ASGD; shipped settings predict from
    past times, not from resources, and give the noise scale as a number. The cluster places nodes (IV-D2). Trees have
    two levels and carry gradients only; with a tree T_i is the time until the gradient is ready, without sending. All
    links of a ring count as equally fast: a child's parent is the ring worker with the fewest children.

    Attributes:
        predictor_settings: settings of the predictor that differ from its defaults.
        modes: candidates among ``ssgd``, ``asgd``, ``static``, ``dynamic``; the first two alone are the ablation /xS,
            without the last it is /DS.
        mode_cost: see :class:`strategies.star.times.ModeTimes`.
        kappa: price of a squared lag, or with ``mode_cost: priced`` of a squared staleness of one update; None: the one
            fitted to ``kappa_workload`` (:mod:`strategies.star.times`).
        kappa_workload: name of the job's workload; None: unknown.
        kappa_lr: its learning rate; None: unknown.
        phi: gradient noise scale in samples; None: from ``phi_table``, or measured while the job trains, and nothing is
            decided before.
        phi_table: a file of scripts/fitting/profile_noise.py; empty: none.
        phi_model: which of its models: the workload's name.
        min_gain_frac: part by which a mode must be better than the present one.
        cluster_frac: part of the fastest member's time by which the slowest of a cluster may take longer.
        when_calm: without stragglers ``ssgd`` (STAR), or the present mode if SSGD would cost more (``cheaper``).
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
        topology: ``ps``, or ``allreduce``, where a mode is a ring without some of the stragglers, which are children
            (:mod:`strategies.star.ring`); other ``modes`` are refused there, ``when_calm`` and clusters have no
            use, and prices none without ``learning``.
        waits_s: with ``allreduce``, seconds that parents may wait for their children.
        prevent: whether the cluster is asked for what a mode needs; False is the ablation /PS.
        tree_fanout: see :class:`strategies.parts.sending.tree.TreeGate`, as the next; None: there is no tree, the
            ablation /Tree.
        tree_wait_s: None: half of the median iteration of those who wait together.
    """

    predictor_settings: Mapping[str, Any] = field(default_factory=dict)
    modes: Sequence[str] = MODES
    mode_cost: str = "pooled"
    kappa: float | None = None
    kappa_workload: str | None = None
    kappa_lr: float | None = None
    phi: float | None = None
    phi_table: str = ""
    phi_model: str = ""
    min_gain_frac: float = 0.0
    cluster_frac: NonNegativeFloat = 0.2
    when_calm: Annotated[str, OneOf(*CALM)] = "cheaper"
    data: str = "dynamic"
    lr_rule: str = "batch_linear"
    topology: Annotated[str, OneOf("ps", "allreduce")] = "ps"
    waits_s: Sequence[NonNegativeFloat] = WAITS_S
    prevent: Bool = False
    tree_fanout: int | None = None
    tree_wait_s: float | None = None

    def compose(self) -> Parts:
        times = self.make(
            PredictedTimes,
            settings=self.predictor_settings,
            with_links=self.topology == "ps",
            with_sending=self.tree_fanout is None,
        )
        check_waits(self.waits_s)
        demands = self.make(ModeDemands)
        if self.topology == "allreduce":
            return self._ring(times)
        choice = self.make(Choice, costs=self._costs())
        return self.make(
            Parts,
            detectors={"times": times, "noise": self._noise()},
            schedule=self.make(ModeChooser, choice=choice, prevention=demands if self.prevent else None),
            gate=with_tree(ModalGate(), self.tree_fanout, self.tree_wait_s, near_workers=True),
        )

    def _ring(self, times: PredictedTimes) -> Parts:
        """A ring that stragglers leave."""
        if tuple(self.modes) != MODES:
            raise ValueError(f"modes={','.join(self.modes)}: is for topology=ps; leave it out for a ring")
        if self.prevent:
            raise ValueError("prevent=true: is for topology=ps; a ring has no servers whose needs grow with the mode")
        if self.tree_fanout is not None:
            raise ValueError(f"tree_fanout={self.tree_fanout}: is for topology=ps; a ring has no server to relieve")
        schedule = self.make(RingChooser, costs=self._costs())
        return self.make(Parts, detectors={"times": times, "noise": self._noise()}, schedule=schedule, gate=RingGate())

    def _costs(self) -> ModeTimes:
        """How staleness is priced."""
        kappa = self.kappa
        if kappa is None:
            kappa = kappa_for(self.mode_cost, self.kappa_workload, self.kappa_lr)
        return self.make(ModeTimes, kappa=kappa)

    def _noise(self) -> NoiseMeter | FixedNoise | TabledNoise:
        """The noise scale: a number, a table, or measured."""
        if self.phi is not None and self.phi_table:
            raise ValueError(f"phi_table={self.phi_table}: phi={self.phi:g} is given, too; set phi=null for the table")
        if self.phi_model and not self.phi_table:
            raise ValueError(f"phi_model={self.phi_model}: names a model of phi_table, and there is none")
        if self.phi_table:
            return self.make(TabledNoise)
        return NoiseMeter() if self.phi is None else self.make(FixedNoise)
