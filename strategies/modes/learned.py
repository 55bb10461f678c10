"""STAR-ML: the costs of modes by a model, learnt from STAR-H's decisions and what modes took (section IV-C2; pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final

import numpy as np

from predictors.history import Floats
from predictors.network import Network
from predictors.network_file import load_network
from predictors.ridge import Ridge
from strategies.checks import check_choice, check_number, check_whole
from strategies.gates.modal import Mode
from strategies.modes.choice import Choice, Groups, placed
from strategies.modes.features import feature_names, rows_of
from strategies.modes.samples import Costed, SampleBuffer, regret_of
from strategies.modes.times import ModeTimes

ESTIMATED, MEASURED = 0.25, 1.0
"""Weights of STAR-H's estimates and of measured times."""
CLOSE, LEAST_WEIGHT = 0.1, 0.02
"""Logarithm of the disadvantage at which a mode counts e times less, and what is left of those far behind."""
REGRESSORS = ("mlp", "ridge")
LEARNT_COSTS = ("pooled", "priced", "literal")
"""Its estimates know these prices of staleness."""
MAX_WORKERS = 1000
"""Most workers that a model has room for: its features grow with them."""


class Question(NamedTuple):
    """What is to be decided: the arguments of :meth:`strategies.modes.choice.Choice.priced`."""

    workers: tuple[int, ...]
    times_s: tuple[float, ...]
    groups: Groups
    batch_samples: float
    phi_samples: float
    present: Mode


class Model(Protocol):
    """What learns in slices: :class:`predictors.network.Network`, :class:`predictors.ridge.Ridge`."""

    fitted: bool

    def begin(self, inputs: Floats, targets: Floats, weights: Floats | None = None, epochs: int = 1) -> None:
        """Begin a fit of these rows."""
        ...

    def advance(self, steps: int) -> bool:
        """Carry out a slice of it; True when it is complete."""
        ...

    def predict(self, inputs: Floats) -> Floats:
        """Predicted targets, float [rows]."""
        ...


@final
class LearnedTimes:
    """The costs of modes as :class:`strategies.modes.times.ModeTimes` has them, by a model that corrects estimates."""

    def __init__(self, model: Model, costs: ModeTimes, max_workers: int) -> None:
        self.model, self.costs, self.max_workers = model, costs, max_workers

    def all_s(
        self,
        times_s: Sequence[float],
        batch_samples: float,
        phi_samples: float,
        sizes: Sequence[int],
        groupings: Sequence[Sequence[Sequence[int]]],
    ) -> tuple[dict[int, float], list[float]]:
        """Predicted seconds per unit of progress, by x of ``sizes`` and of every grouping of workers."""
        rows = rows_of(times_s, batch_samples, phi_samples, self.costs, self.max_workers, sizes, groupings)
        seconds = np.exp(rows.log_s + self.model.predict(rows.features)).tolist()
        return dict(zip(sizes, seconds, strict=False)), seconds[len(sizes) :]


def costed(
    question: Question, mode_s: Mapping[Mode, float], costs: ModeTimes, max_workers: int, weight: float
) -> Costed:
    """What is learnt of modes and their seconds per unit of progress.

    A mode counts the less, the worse it is than the best of them: how bad the bad ones are changes no decision.
    """
    count = len(question.workers)
    place = {worker: index for index, worker in enumerate(question.workers)}
    sized = sorted((min(mode.x or count, count), mode) for mode in mode_s if mode.groups is None)
    grouped = [mode for mode in mode_s if mode.groups is not None]
    rows = rows_of(
        question.times_s,
        question.batch_samples,
        question.phi_samples,
        costs,
        max_workers,
        sizes=[x for x, _ in sized],
        groupings=[placed(mode.groups or (), place) for mode in grouped],
    )
    seconds = np.array([mode_s[mode] for _, mode in sized] + [mode_s[mode] for mode in grouped])
    log_s = np.log(seconds)
    weights = weight * (LEAST_WEIGHT + np.exp(-(log_s - log_s.min()) / CLOSE))
    return Costed(rows.features, log_s - rows.log_s, rows.log_s, weights)


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
        regressor: ``mlp`` (a network of 64 and 32 rectified units) or ``ridge``.
        use_ml_from_start: whether the model of ``weights`` decides from the start; otherwise the job learns its own.
        weights: a file of scripts/train_modes.py; empty: the one that comes along.
        decision_s: seconds that its decisions take; those of STAR-H take the schedule's.
        min_samples: rows before the first fit.
        max_samples: rows that are kept.
        max_regret_frac: see above.
        epochs: passes over the rows by the first fit, for ``mlp``.
        refit_samples: new rows from one check to the next.
        refit_epochs: passes by each refinement.
        check_every: decisions of the model from one that is costed by STAR-H, too, to the next.
        hold_updates: updates of a mode after which its time counts as measured.
        max_workers: workers that the model has room for; with more, STAR-H decides.
        slice_steps: minibatches of a fit at each arrival.
    """

    regressor: str = "mlp"
    use_ml_from_start: bool = False
    weights: str = ""
    decision_s: float = 0.12
    min_samples: int = 500
    max_samples: int = 5000
    max_regret_frac: float = 0.05
    epochs: int = 200
    refit_samples: int = 50
    refit_epochs: int = 5
    check_every: int = 10
    hold_updates: int = 20
    max_workers: int = 16
    slice_steps: int = 4

    def __post_init__(self) -> None:
        check_choice("regressor", self.regressor, *REGRESSORS)
        if not isinstance(self.use_ml_from_start, bool):
            raise ValueError(f"use_ml_from_start={self.use_ml_from_start}: must be true or false")
        for name in ("epochs", "refit_samples", "refit_epochs", "check_every", "hold_updates", "slice_steps"):
            check_whole(name, getattr(self, name), 1)
        check_whole("min_samples", self.min_samples, 10)
        check_whole("max_samples", self.max_samples, self.min_samples)
        check_whole("max_workers", self.max_workers, 2, MAX_WORKERS)
        check_number("decision_s", self.decision_s, 0.0)
        check_number("max_regret_frac", self.max_regret_frac, 0.0)
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
        return (load_network(self.weights, "modes", feature_names(self.max_workers)).known_as,)

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` for more workers than the model has room for."""
        if num_workers > self.max_workers:
            raise ValueError(
                f"max_workers={self.max_workers}: the model has room for so many workers, and there are {num_workers}; "
                "use a larger one without use_ml_from_start, or strategy=star_h"
            )

    def check_costs(self, costs: ModeTimes) -> None:
        """Raise ``ValueError`` for costs that no model, or not the one that decides from the start, can learn."""
        if costs.mode_cost not in LEARNT_COSTS:
            raise ValueError(
                f"mode_cost={costs.mode_cost}: a model learns {' or '.join(LEARNT_COSTS)}; choose that, or "
                "learning=null"
            )
        if self.use_ml_from_start:
            about = load_network(self.weights, "modes", feature_names(self.max_workers)).about
            if costs.mode_cost not in about.split():
                raise ValueError(
                    f"mode_cost={costs.mode_cost}: the model that decides from the start has learnt {about}; choose "
                    "that, set learning.use_ml_from_start=false, or fit another with scripts/train_modes.py"
                )

    def reset(self) -> None:
        """Forget what a job has taught."""
        names = feature_names(self.max_workers)
        self.model: Model = Network(len(names)) if self.regressor == "mlp" else Ridge(len(names))
        if self.use_ml_from_start:
            self.model = deepcopy(load_network(self.weights, "modes", names).network)
        self.decides = self.use_ml_from_start
        self.regret_frac: float | None = None
        """Of the model's choices, at the last check."""
        self._buffer = SampleBuffer(self.max_samples)
        self._new = self._decisions = 0
        self._judged: list[Costed] = []
        self._waiting: deque[tuple[Question, list[Mode], dict[Mode, float]]] = deque()

    # ---- decisions --------------------------------------------------------------------------------------------------

    def can_decide(self, num_workers: int) -> bool:
        """Whether the next decision is the model's."""
        return self.decides and num_workers <= self.max_workers

    def priced(self, choice: Choice, question: Question) -> dict[Mode, float]:
        """Seconds per unit of progress of all candidates, the best first; by STAR-H until the model decides."""
        if not self.can_decide(len(question.workers)):
            mode_s = choice.priced(*question)
            self.learn(question, mode_s, choice.costs)
            return mode_s
        found = choice.priced(*question, by=LearnedTimes(self.model, choice.costs, self.max_workers))
        self._decisions += 1
        if self._decisions % self.check_every == 0:
            self._waiting.append((question, list(found), {}))
        return found

    # ---- learning ---------------------------------------------------------------------------------------------------

    def learn(self, question: Question, mode_s: Mapping[Mode, float], costs: ModeTimes) -> None:
        """Take over STAR-H's estimates for one decision."""
        if len(question.workers) <= self.max_workers:
            self._add(costed(question, mode_s, costs, self.max_workers, ESTIMATED))

    def measured(self, question: Question, mode: Mode, unit_s: float, costs: ModeTimes) -> None:
        """Take over what a mode took that was chosen at a decision; what is not finite is ignored."""
        if len(question.workers) <= self.max_workers and 0 < unit_s < float("inf"):
            one = costed(question, {mode: unit_s}, costs, self.max_workers, MEASURED)
            self._add(one._replace(measured=True))

    def _add(self, one: Costed) -> None:
        self._buffer.add(one)
        self._new += len(one.targets)

    def advance(self, costs: ModeTimes) -> None:
        """Do a slice of what is to be done between decisions: cost a mode, or some steps of a fit."""
        if self._waiting:
            self._cost_one(costs)
        elif self._judged:
            if self.model.advance(self.slice_steps):
                self._judge()
        elif self._buffer.rows >= self.min_samples and self._new >= self.refit_samples:
            self._begin_fit()

    def _cost_one(self, costs: ModeTimes) -> None:
        """STAR-H's estimate of one more mode of a decision that is costed afterwards."""
        question, modes, found = self._waiting[0]
        workers, times_s, _, batch, phi, _ = question
        mode = modes.pop()
        if mode.groups is None:
            x = min(mode.x or len(workers), len(workers))
            found[mode] = costs.static_s(times_s, batch, phi, [x])[x]
        else:
            place = {worker: index for index, worker in enumerate(workers)}
            found[mode] = costs.dynamic_s(times_s, placed(mode.groups, place), batch, phi)
        if not modes:
            self._waiting.popleft()
            self.learn(question, found, costs)

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
