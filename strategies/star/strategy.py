"""STAR: the mode of synchronisation with the least predicted time per unit of progress, chosen again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, final

from strategies.parts.checks import Bool, NonNegativeFloat, OneOf
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
        phi_table: a file of scripts/profile_noise.py; empty: none.
        phi_model: which of its models: the workload's name.
        min_gain_frac: part by which a mode must be better than the present one.
        cluster_frac: part of the fastest member's time by which the slowest of a cluster may take longer.
        when_calm: without stragglers ``ssgd`` (STAR), or the present mode if SSGD would cost more (``cheaper``).
        data: allocation policy, ``dynamic``, ``shared`` or ``even``.
        lr_rule: see :mod:`strategies.parts.weights`.
        topology: ``ps``, or ``allreduce``, where a mode is a ring without some of the stragglers, who are children
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
    waits_s: Sequence[float] = WAITS_S
    prevent: Bool = False
    tree_fanout: int | None = None
    tree_wait_s: float | None = None

    def compose(self) -> Parts:
        """A gate with modes, predicted times, a noise scale, and the schedule that chooses by them."""
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
            gate=with_tree(ModalGate(), self.tree_fanout, self.tree_wait_s, near_workers=True),
            detectors={"times": times, "noise": self._noise()},
            schedule=self.make(ModeChooser, choice=choice, prevention=demands if self.prevent else None),
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
        return self.make(Parts, gate=RingGate(), detectors={"times": times, "noise": self._noise()}, schedule=schedule)

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
