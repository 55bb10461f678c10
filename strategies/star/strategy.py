"""STAR: the mode of synchronisation with the least predicted time per unit of progress, chosen again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from strategies.parts.checks import check_choice, check_number
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import RingGate
from strategies.parts.sending.tree import with_tree
from strategies.star.choice import MODES, Choice
from strategies.star.chooser import CALM, ModeChooser
from strategies.star.demands import ModeDemands
from strategies.star.fixed_noise import FixedNoise
from strategies.star.learned import ModeLearner
from strategies.star.modal import ModalGate
from strategies.star.noise import NoiseMeter
from strategies.star.predicted import PredictedTimes
from strategies.star.ring import RingChooser
from strategies.star.ring_modes import WAITS_S, check_waits
from strategies.star.tabled_noise import TabledNoise
from strategies.star.times import ModeTimes, kappa_for


@final
@dataclass(kw_only=True)
class Star(Composition):
    """SSGD without stragglers; with some, the best of SSGD, ASGD, static and dynamic x-order.

    Source: STAR, sections IV-A to IV-C (STAR-H, STAR-ML and STAR-), for one job with parameter servers. Decided at
    ``Arrived``: after every ``predict_every_iters`` iterations of all workers on average their next times are
    predicted, and who exceeds the fastest by ``straggler_frac`` is tagged. When tags, clusters or times change, and
    every ``redecide_iters`` while somebody is tagged, the time per unit of progress of every mode is computed
    (:mod:`strategies.star.times`); the best is taken with the next update. What waits is kept. Batches stay B / N, the
    rate follows the share of the global batch. Nobody begins to compute while a decision is made (``pause``); without,
    it is made that much ahead (STAR-). With ``learning`` a model costs the modes once it has learnt enough from these
    decisions (STAR-ML, :mod:`strategies.star.learned`).

    With ``prevent`` a mode whose servers need more of their hosts is asked for first, and gives way to the next best
    if the other jobs there would lose more than this one wins (section IV-D1); the cluster's policy decides that.

    With ``tree_fanout`` gradients are summed on their way up a tree (section IV-D2) where it is known whose make an
    update: in SSGD, and in every group of dynamic x-order (:mod:`strategies.parts.sending.tree`). Decided at ``Ready``.

    Departures: staleness has a price, because the printed equations always choose ASGD; shipped settings predict from
    past times, not from resources, and give the noise scale as a number. Placement is the cluster's. Trees have two
    levels and carry gradients only; with one an iteration's time is that until its gradient is ready.

    Attributes:
        predictor: a name of ``predictors.registry.STRAGGLER_PREDICTORS``; ``fixed_duration`` is the ablation /SP.
        predictor_settings: settings of the predictor that differ from its defaults.
        history_iters: iterations of a worker whose median bounds its predictions (to 0.2 and 5 times).
        horizon_iters: iterations ahead that are predicted.
        predict_every_iters: iterations of every worker on average from one prediction to the next.
        redecide_iters: iterations of every worker on average after which is decided again while somebody is tagged.
        straggler_frac: part of the fastest worker's time by which a straggler's exceeds it.
        cluster_frac: part of the fastest member's time by which the slowest of a cluster may take longer.
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
        decision_s: seconds that a decision takes.
        pause: whether workers wait for a decision.
        max_pause_frac: decisions that change nothing pause ever less often, until they take this part of the time.
        when_calm: without stragglers ``ssgd`` (STAR), or the present mode if SSGD would cost more (``cheaper``).
        learning: see :class:`strategies.star.learned.ModeLearner`; None: STAR-H always decides.
        warmup_iters: first iterations of a process that are ignored.
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
        topology: ``ps``, or ``allreduce``, where a mode is a ring without some of the stragglers, who are children
            (:mod:`strategies.star.ring`); other ``modes`` are refused there, ``when_calm`` and clusters have no
            use, and prices none without ``learning``.
        waits_s: with ``allreduce``, seconds that parents may wait for their children.
        prevent: whether the cluster is asked for what a mode needs; False is the ablation /PS.
        check_workers: see :class:`strategies.star.demands.ModeDemands`, as the next two; False is the ablation /W.
        cpu_growth_frac: by which the processor time of a server grows in ASGD.
        link_growth_frac: by which what it sends per second does.
        tree_fanout: see :class:`strategies.parts.sending.tree.TreeGate`, as the next; None: there is no tree, the
            ablation /Tree.
        tree_wait_s: None: half of the median iteration of those who wait together.
    """

    predictor: str = "ema"
    predictor_settings: Mapping[str, Any] = field(default_factory=dict)
    history_iters: int = 100
    horizon_iters: int = 30
    predict_every_iters: int = 1
    redecide_iters: int = 10
    straggler_frac: float = 0.2
    cluster_frac: float = 0.2
    modes: Sequence[str] = MODES
    mode_cost: str = "pooled"
    kappa: float | None = None
    kappa_workload: str | None = None
    kappa_lr: float | None = None
    phi: float | None = None
    phi_table: str = ""
    phi_model: str = ""
    min_gain_frac: float = 0.0
    decision_s: float = 0.97
    pause: bool = True
    max_pause_frac: float = 1.0
    learning: ModeLearner | None = None
    when_calm: str = "cheaper"
    warmup_iters: int = 3
    data: str = "dynamic"
    lr_rule: str = "batch_linear"
    topology: str = "ps"
    waits_s: Sequence[float] = WAITS_S
    prevent: bool = False
    check_workers: bool = True
    cpu_growth_frac: float | None = 0.43
    link_growth_frac: float | None = 0.18
    tree_fanout: int | None = None
    tree_wait_s: float | None = None

    def compose(self) -> Parts:
        """A gate with modes, predicted times, a noise scale, and the schedule that chooses by them."""
        times = PredictedTimes(
            predictor=self.predictor,
            settings=self.predictor_settings,
            straggler_frac=self.straggler_frac,
            history_iters=self.history_iters,
            horizon_iters=self.horizon_iters,
            warmup_iters=self.warmup_iters,
            with_links=self.topology == "ps",
            with_sending=self.tree_fanout is None,
        )
        check_choice("topology", self.topology, "ps", "allreduce")
        check_waits(self.waits_s)
        check_choice("when_calm", self.when_calm, *CALM)
        check_number("cluster_frac", self.cluster_frac, 0.0)
        if not isinstance(self.prevent, bool):
            raise ValueError(f"prevent={self.prevent}: must be true or false")
        demands = ModeDemands(
            cpu_growth_frac=self.cpu_growth_frac,
            link_growth_frac=self.link_growth_frac,
            check_workers=self.check_workers,
        )
        if self.topology == "allreduce":
            return self._ring(times)
        schedule = ModeChooser(
            choice=Choice(modes=self.modes, min_gain_frac=self.min_gain_frac, costs=self._costs()),
            predict_every_iters=self.predict_every_iters,
            redecide_iters=self.redecide_iters,
            cluster_frac=self.cluster_frac,
            decision_s=self.decision_s,
            pause=self.pause,
            max_pause_frac=self.max_pause_frac,
            learning=self.learning,
            when_calm=self.when_calm,
            prevention=demands if self.prevent else None,
        )
        return Parts(
            gate=with_tree(ModalGate(), self.tree_fanout, self.tree_wait_s, near_workers=True),
            detectors={"times": times, "noise": self._noise()},
            schedule=schedule,
            lr_rule=self.lr_rule,
        )

    def _ring(self, times: PredictedTimes) -> Parts:
        """A ring that stragglers leave."""
        if tuple(self.modes) != MODES:
            raise ValueError(f"modes={','.join(self.modes)}: is for topology=ps; leave it out for a ring")
        if self.prevent:
            raise ValueError("prevent=true: is for topology=ps; a ring has no servers whose needs grow with the mode")
        if self.tree_fanout is not None:
            raise ValueError(f"tree_fanout={self.tree_fanout}: is for topology=ps; a ring has no server to relieve")
        schedule = RingChooser(
            waits_s=self.waits_s,
            predict_every_iters=self.predict_every_iters,
            redecide_iters=self.redecide_iters,
            min_gain_frac=self.min_gain_frac,
            decision_s=self.decision_s,
            pause=self.pause,
            max_pause_frac=self.max_pause_frac,
            learning=self.learning,
            costs=self._costs(),
        )
        return Parts(
            gate=RingGate(), detectors={"times": times, "noise": self._noise()}, schedule=schedule, lr_rule=self.lr_rule
        )

    def _costs(self) -> ModeTimes:
        """How staleness is priced."""
        kappa = self.kappa
        if kappa is None:
            kappa = kappa_for(self.mode_cost, self.kappa_workload, self.kappa_lr)
        return ModeTimes(mode_cost=self.mode_cost, kappa=kappa)

    def _noise(self) -> NoiseMeter | FixedNoise | TabledNoise:
        """The noise scale: a number, a table, or measured."""
        if self.phi is not None and self.phi_table:
            raise ValueError(f"phi_table={self.phi_table}: phi={self.phi:g} is given, too; set phi=null for the table")
        if self.phi_model and not self.phi_table:
            raise ValueError(f"phi_model={self.phi_model}: names a model of phi_table, and there is none")
        if self.phi_table:
            return TabledNoise(phi_table=self.phi_table, phi_model=self.phi_model)
        return NoiseMeter() if self.phi is None else FixedNoise(phi=self.phi)
