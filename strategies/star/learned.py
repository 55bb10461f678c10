"""STAR-ML: the costs of modes by a model, learnt from STAR-H's decisions and what modes took (section IV-C2; pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, final

import numpy as np

from predictors.network import Network
from predictors.network_file import FittedNetwork, load_network
from predictors.ridge import Ridge
from reading.ranges import Bool, NonNegativeFloat, OneOf, PositiveInt, Whole, check_settings, check_whole
from strategies.star.features import feature_names
from strategies.star.ring_question import RingQuestion, ring_feature_names
from strategies.star.samples import Costed, Model, SampleBuffer, regret_of
from strategies.star.server_question import ServerQuestion
from strategies.star.times import ModeTimes

REGRESSORS = ("mlp", "ridge")
LEARNT_COSTS = ("pooled", "priced", "literal")
"""Its estimates know these prices of staleness."""
MAX_WORKERS = 1000
"""Most workers that a model has room for: its features grow with them."""
INPUTS = {"ps": ("modes", feature_names), "allreduce": ("ring_modes", ring_feature_names)}
"""The file that comes along, and the features that a model is given about a mode, by topology."""

Asked = ServerQuestion | RingQuestion
"""A decision about modes, for which STAR-H and a model can say what they cost, in seconds per unit of progress."""


class Waiting(NamedTuple):
    """A decision of the model that STAR-H costs afterwards: modes without a cost, and the costs of the others."""

    asked: Asked
    modes: list[Any]
    found: dict[Any, float]


@final
@dataclass(kw_only=True)
class ModeLearner:
    """Learns what modes cost while STAR-H decides, decides itself once it is good enough, and continues to learn.

    A decision of STAR-H gives a row for every candidate, with its estimate; a mode that was kept for ``hold_updates``
    or more gives one with what it took. With ``min_samples`` rows the model is fitted to all but the newest decisions,
    and decides from then on if its choices among those cost at most ``max_regret_frac`` more than the best ones. This
    is checked again after every ``refit_samples`` more rows, before which the model was refined with them; so it may
    lose the decisions again. While it decides, every ``check_every``-th decision is costed by STAR-H afterwards.

    Fits and those costs are carried out between decisions, a slice with every arrival.

    Attributes:
        topology: the strategy's: ``ps``, or ``allreduce``, whose modes are others and have a model of their own.
        regressor: ``mlp`` (a network of 64 and 32 rectified units) or ``ridge``.
        use_ml_from_start: whether the model of ``weights`` decides from the start; otherwise the job learns its own.
        weights: a file of scripts/fitting/train_modes.py; empty: the one that comes along.
        decision_s: seconds that its decisions take; STAR-H's decisions take the schedule's.
        min_samples: rows before the first fit.
        max_samples: rows that are kept.
        max_regret_frac: see above.
        epochs: passes over the rows by the first fit, for ``mlp``.
        refit_samples: new rows from one check to the next.
        refit_epochs: passes by each refinement.
        check_every: after so many decisions of the model, STAR-H costs one, too.
        hold_updates: updates of a mode after which its time counts as measured.
        max_workers: workers that the model has room for; with more, STAR-H decides.
        slice_steps: minibatches of a fit at each arrival.
    """

    topology: Annotated[str, OneOf(*INPUTS)] = "ps"
    regressor: Annotated[str, OneOf(*REGRESSORS)] = "mlp"
    use_ml_from_start: Bool = False
    weights: str = ""
    decision_s: NonNegativeFloat = 0.12
    min_samples: Annotated[int, Whole(10)] = 500
    max_samples: int = 5000
    max_regret_frac: NonNegativeFloat = 0.05
    epochs: PositiveInt = 200
    refit_samples: PositiveInt = 50
    refit_epochs: PositiveInt = 5
    check_every: PositiveInt = 10
    hold_updates: PositiveInt = 20
    max_workers: Annotated[int, Whole(2, MAX_WORKERS)] = 16
    slice_steps: PositiveInt = 4

    def __post_init__(self) -> None:
        check_settings(self)
        check_whole("max_samples", self.max_samples, self.min_samples)
        if self.weights and not self.use_ml_from_start:
            raise ValueError(f"weights={self.weights}: is used only with use_ml_from_start=true")
        if self.use_ml_from_start and self.regressor != "mlp":
            raise ValueError(f"use_ml_from_start=True: files hold networks; set regressor=mlp, not {self.regressor}")
        self.reset()

    @property
    def fitted(self) -> tuple[str, ...]:
        """The file of the model that decides from the start, as records name it; none where a job learns its own."""
        if not self.use_ml_from_start:
            return ()
        return (self._load().known_as,)

    def _load(self) -> FittedNetwork:
        """The model of :attr:`weights`."""
        name, names_of = INPUTS[self.topology]
        return load_network(self.weights, name, names_of(self.max_workers))

    def validate(self, num_workers: int) -> None:
        if num_workers > self.max_workers:
            raise ValueError(
                f"max_workers={self.max_workers}: the model has room for so many workers, and there are {num_workers}; "
                "use a larger one without use_ml_from_start, or strategy=star_h"
            )

    def check(self, strategys: str, costs: ModeTimes) -> None:
        """Raise ``ValueError`` for another topology than the strategy's, and for costs that the model cannot learn."""
        if self.topology != strategys:
            raise ValueError(
                f"learning.topology={self.topology}: must be the strategy's, {strategys}, whose modes are others"
            )
        if costs.mode_cost not in LEARNT_COSTS:
            raise ValueError(
                f"mode_cost={costs.mode_cost}: a model learns {' or '.join(LEARNT_COSTS)}; choose that, or "
                "learning=null"
            )
        if self.use_ml_from_start:
            about = self._load().about
            if costs.mode_cost not in about.split():
                raise ValueError(
                    f"mode_cost={costs.mode_cost}: the model that decides from the start has learnt {about}; choose "
                    "that, set learning.use_ml_from_start=false, or fit another with scripts/fitting/train_modes.py"
                )

    def reset(self) -> None:
        """Forget the samples and the fit of a job."""
        inputs = len(INPUTS[self.topology][1](self.max_workers))
        self.model: Model = Network(inputs) if self.regressor == "mlp" else Ridge(inputs)
        if self.use_ml_from_start:
            self.model = deepcopy(self._load().network)
        self.decides = self.use_ml_from_start
        self.regret_frac: float | None = None
        """Regret of the model's choices, at the last check."""
        self._buffer = SampleBuffer(self.max_samples)
        self._new = self._decisions = 0
        self._judged: list[Costed] = []
        self._waiting: deque[Waiting] = deque()

    # ---- decisions --------------------------------------------------------------------------------------------------

    def can_decide(self, num_workers: int) -> bool:
        """Whether the next decision is the model's."""
        return self.decides and num_workers <= self.max_workers

    def price_modes(self, asked: Asked) -> dict[Any, float]:
        """Seconds per unit of progress of all candidates, the best first; by STAR-H until the model decides."""
        if not self.can_decide(asked.num_workers):
            mode_s = asked.by_rule()
            self.learn(asked, mode_s)
            return mode_s
        found = asked.by_model(self.model, self.max_workers)
        self._decisions += 1
        if self._decisions % self.check_every == 0:
            self._waiting.append(Waiting(asked, list(found), {}))
        return found

    # ---- learning ---------------------------------------------------------------------------------------------------

    def learn(self, asked: Asked, mode_s: Mapping[Any, float]) -> None:
        """Take over STAR-H's estimates for one decision."""
        if asked.num_workers <= self.max_workers:
            self._add(asked.cost_sample(mode_s, self.max_workers, measured=False))

    def learn_time(self, asked: Asked, mode: Any, unit_s: float) -> None:
        """Take over the measured time of a mode that a decision chose; a time that is not finite is ignored."""
        if asked.num_workers <= self.max_workers and 0 < unit_s < float("inf"):
            self._add(asked.cost_sample({mode: unit_s}, self.max_workers, measured=True))

    def _add(self, one: Costed) -> None:
        self._buffer.add(one)
        self._new += len(one.targets)

    def advance(self) -> None:
        """Do a slice of the work between decisions: cost a mode, or some steps of a fit."""
        if self._waiting:
            self._cost_one()
        elif self._judged:
            if self.model.advance(self.slice_steps):
                self._judge()
        elif self._buffer.rows >= self.min_samples and self._new >= self.refit_samples and self._buffer.decisions > 1:
            self._begin_fit()

    def _cost_one(self) -> None:
        """STAR-H's estimate of one more mode of a decision that is costed afterwards."""
        asked, modes, found = self._waiting[0]
        mode = modes.pop()
        found[mode] = asked.one_s(mode)
        if not modes:
            self._waiting.popleft()
            self.learn(asked, found)

    def _begin_fit(self) -> None:
        rows, held_out = self._buffer.split()
        self._new = 0
        if held_out:
            self._judged = held_out
            self.model.begin(*rows, epochs=self.refit_epochs if self.model.fitted else self.epochs)

    def _judge(self) -> None:
        """After a fit: the model decides if it would have chosen well where it has not learnt from."""
        regrets = [regret_of(one, self.model.predict(one.features)) for one in self._judged]
        self._judged = []
        self.regret_frac = float(np.mean(regrets))
        self.decides = self.regret_frac <= self.max_regret_frac
