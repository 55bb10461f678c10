"""How right straggler predictors are on the runs of an experiment, for ``python run.py experiment``.

Labels are as in ``python run.py predictors --labels``, ``realised`` unless the experiment says otherwise: an iteration
straggles if it took 20 % longer than the concurrent iterations of the other workers.
"""

from __future__ import annotations

from collections.abc import Callable

from analysis.experiments.spec import Prediction, Spec, SpecError
from analysis.measures.prediction import RATES, alarms, rates
from analysis.measures.prediction_labels import labelled_windows, losses, timed, truth
from analysis.records.load import Run
from predictors.backtest import backtest
from predictors.registry import straggler_predictor
from predictors.stragglers import PredictsByFile
from stragglab.tables.predictor_scores import ORACLE, observed, planned_windows

RatesOf = Callable[[Run], dict[str, dict[str, float]]]


def rates_of(spec: Spec) -> RatesOf | None:
    """A function that scores the predictors of ``spec`` on a run, by level; None if it has none.

    Raises:
        SpecError: a predictor that does not exist, or settings that it does not have.
    """
    if not spec.predictors:
        return None
    for level, asked in spec.predictors.items():
        try:
            if asked.name == ORACLE and spec.labels == "realised":
                raise ValueError(f"{ORACLE}: reads the plan; add labels: plan")
            straggler_predictor(asked.name, asked.settings)
        except ValueError as error:
            raise SpecError(f"{spec.name}: predictors.{level}: {error}") from None
    return lambda run: scored(run, spec.predictors, spec.labels)


def fitted_of(spec: Spec) -> list[str]:
    """The fitted files by which the predictors of ``spec`` predict, as records name them."""
    made = [straggler_predictor(asked.name, asked.settings) for asked in spec.predictors.values()]
    return sorted({name for one in made if isinstance(one, PredictsByFile) for name in one.fitted})


def scored(run: Run, asked: dict[str, Prediction], labels: str = "realised") -> dict[str, dict[str, float]]:
    """Return by level the rates over all iterations of all workers; NaN if nothing straggled, or nothing was tagged."""
    rows = timed(run)
    label = truth(run, rows, labels)
    known, seen, lost = label.notna().to_numpy(), observed(rows), losses(run)
    plan = planned_windows(labelled_windows(run, labels))
    found = {}
    for level, one in asked.items():
        tags = backtest(straggler_predictor(one.name, one.settings, plan), seen, lost, one.lead_s)
        mine = rows.assign(label=label, tag=tags)[known].astype({"label": "bool"})
        every = rates(mine["label"].to_numpy(), mine["tag"].to_numpy())
        found[level] = {**{name: every[name] for name in RATES}, **alarms(mine)}
    return found
