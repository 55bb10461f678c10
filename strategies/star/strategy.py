"""STAR: the mode of synchronisation with the least predicted time per unit of progress, chosen again and again.

Symbols: T_i is the predicted iteration time of worker i of N, d_i = T_i / min_j T_j - 1 its deviation, B (STAR: M) the
global batch, b = B / N a worker's batch, phi the gradient noise scale in samples (PGNS), n_u(m) = 1 + phi / m the
updates of m samples that make one unit of progress, t_x the mean seconds from one update of x gradients to the next.

1. Predict (IV-A; ``predicted``): every ``predict_every_iters`` iterations of all workers on average (STAR: 1), the
   mean T_i of the next ``horizon_iters``. STAR's LSTM predicts from the last 100 iterations the processor and bandwidth
   that a worker receives, and a regression turns them into times; here ``predictor`` says how. Worker i is tagged if
   d_i > ``straggler_frac`` (0.2) in any of these iterations.
2. If no worker is tagged: SSGD (``when_calm=cheaper``: the present mode, if SSGD would cost more).
3. Modes (IV-B; ``modal``): in static x-order any x gradients make an update; x = 1 is ASGD, x = N SSGD. In dynamic
   x-order each cluster of workers makes its own updates. A gradient waits for an update with its worker; none is
   dropped. Clusters (``chooser``): in the order of T_i the two neighbours whose union has the least max T / min T are
   merged, while this ratio is at most 1 + ``cluster_frac``. If a worker is tagged, a decision (steps 4 to 9) follows
   when tags or clusters have changed, or a T_i by more than ``cluster_frac``; else after ``redecide_iters`` iterations.
4. phi (IV-C1; ``noise``): a table by step (STAR), a number, or measured. An update has n gradients of the same
   version and m samples; g_i is the mean over the m_i samples of gradient i, L = sum_i (m_i / m) |g_i|^2,
   S = |sum_i (m_i / m) g_i|^2::

       phi = m ((L - S) / (n - 1)) / ((n S - L) / (n - 1))      moving averages of numerator and denominator

5. Cost of a mode: seconds per unit of progress (IV-C1; ``times``)::

       static x-order, x = 1 .. N:                T_x = n_u(x b) p t_x                     (Eq. 1)
       dynamic x-order, clusters c of n_c:        T_d = 1 / sum_c 1 / (n_u(n_c b) p t_c)   (Eq. 2)

   t_c is the largest T_i of cluster c. t_x comes from a simulation of 200 updates or more (``orders``): workers take
   T_i, the x that have finished first make an update and begin again, the others keep what they have. p is the price of
   staleness: 1 in the paper, here 1 + kappa lag^2 (``mode_cost=pooled``), where lag is the mean of s / (1 + s) over
   gradients (in dynamic x-order over updates) that are stale by s global batches.
6. The mode with the least cost is chosen (``choice``); ties: larger x, static before dynamic. The present mode stays
   unless another is better by more than ``min_gain_frac`` (the paper: 0).
7. STAR-ML (IV-C2; ``learned``; the other steps are STAR-H): from T_i, d_i, phi and the mode, a model predicts how far
   step 5 is off. It learns from decisions by step 5, and from the measured cost of modes that were kept for some
   updates. Once its choices cost at most ``max_regret_frac`` (5 %) more, it replaces step 5, which still checks some.
8. Prevention (IV-D1; ``demands``): in a mode with y gradients per update a server needs g (1 - (y - 1) / (N - 1)) more
   than in SSGD, g being its growth in ASGD (``cpu_growth_frac``, ``link_growth_frac``). Other tasks of the host give
   what it lacks (``strategies.cluster.prevention.star``): first workers that wait for a slower one of their group, then
   all in proportion to 1 / (S A). S = prod_j TTA_j / TTA is the sensitivity of the time to accuracy to throttling at
   levels j, A the job's present gain. If their jobs lose no less than this job wins, (T_present - T) / n_u(B) seconds
   per global batch (STAR: S_w >= S_o), the next best mode is asked for. SSGD needs nothing more.
9. ``decision_s`` later (STAR: 0.97), with the next update, the gate changes its mode (``modal``). Until then no worker
   begins to compute (``pause``). Gradients that wait are kept; the rate of an update of y gradients is (y / N) r_SSGD
   (``lr_rule``). STAR- does not pause: it decides for ``decision_s`` later, by predictions that much further ahead.
10. Trees (IV-D2; ``strategies.parts.sending.tree``): where it is known whose gradients make an update, the
    ``tree_fanout`` workers with the lowest latency are inner nodes, which add the gradients of as many children each.

Without servers (``ring``; IV-B): X workers are tagged. Modes are x = 0 .. X and, if x > 0, each t_w in ``waits_s``: the
x slowest leave the ring and become children of ring workers, which wait t_w for their gradients. The least T_a wins::

       T_a = n_u((N - x + q) b) (t_ring + t_w)                                             (Eq. 3)

t_ring is the largest T_i in the ring; q children deliver within t_ring + t_w.
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
