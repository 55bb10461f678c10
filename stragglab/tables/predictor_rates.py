"""How right straggler predictors are on the runs of an experiment, for ``python run.py experiment``.

Labels are as in ``python run.py predictors --labels``, ``realised`` unless the experiment says otherwise: an iteration
straggles if it took 20 % longer than the concurrent iterations of the other workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

import numpy as np
import pandas as pd

from analysis.experiments.spec import PREDICTOR, TUNED, Prediction, Spec, SpecError
from analysis.measures.prediction import RATES, alarms, in_turn, places, rates
from analysis.measures.prediction_labels import Losses, labelled_windows, locate, losses, timed_iterations, truth
from analysis.records.load import Run
from predictors.backtest import asked as queries
from predictors.backtest import replayed
from predictors.oracle import PlannedWindow
from predictors.registry import straggler_predictor
from predictors.stragglers import NamesPart, PredictsByFile
from stragglab.tables.predictor_scores import ORACLE, observations, planned_windows

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
            for more in [{}, *({key: value} for key, some in asked.tune.items() for value in some)]:
                straggler_predictor(asked.name, {**asked.settings, **more})
        except ValueError as error:
            raise SpecError(f"{spec.name}: predictors.{level}: {error}") from None
    return lambda run: score(run, spec.predictors, spec.labels)


def fitted_files(spec: Spec) -> list[str]:
    """The fitted files by which the predictors of ``spec`` predict, as records name them."""
    made = [straggler_predictor(asked.name, asked.settings) for asked in spec.predictors.values()]
    return sorted({name for one in made if isinstance(one, PredictsByFile) for name in one.fitted})


def score(run: Run, asked: dict[str, Prediction], labels: str = "realised") -> dict[str, dict[str, float]]:
    """Return by level the rates over all iterations of all workers; NaN if nothing straggled, or nothing was tagged.

    A level with ``tune`` has further ones, named by :func:`tuned_name`: a setting is changed, all else is the same.
    """
    rows, windows = timed_iterations(run), labelled_windows(run, labels)
    judged = pd.concat([rows, locate(run, rows, windows)], axis="columns").assign(label=truth(run, rows, labels))
    return scores_of(judged, losses(run), planned_windows(windows), asked)


def scores_of(
    rows: pd.DataFrame, lost: Losses, plan: Sequence[PlannedWindow], asked: Mapping[str, Prediction]
) -> dict[str, dict[str, float]]:
    """The same of iterations whose truth is known.

    Args:
        rows: as of :func:`timed_iterations`, with ``label`` (null: unknown) and the columns of :func:`locate`.
        lost: from :func:`losses`.
        plan: what the oracle reads.
        asked: the predictors, by level.
    """
    seen, found = observations(rows), dict[str, dict[str, float]]()
    rows = rows[["worker", "iteration", "begun_s", "label", "place", "part"]].reset_index(drop=True)
    judged = in_turn(rows[rows["label"].notna()]).astype({"label": "bool"})  # once for all predictors
    rounds = {lead_s: replayed(seen, lost, lead_s) for lead_s in {one.lead_s for one in asked.values()}}
    for level, one in asked.items():
        choices = {tuned_name(level, key, value): {key: value} for key, some in one.tune.items() for value in some}
        for name, more in {level: {}, **choices}.items():
            predictor = straggler_predictor(one.name, {**one.settings, **more}, plan)
            naming = predictor if isinstance(predictor, NamesPart) else None
            tag, said = np.zeros(len(rows), dtype="bool"), np.full(len(rows), "", dtype="object")
            for begun, tagged in queries(predictor, rounds[one.lead_s]):
                if tagged:
                    marked = [place for _, place, worker in begun if worker in tagged]
                    tag[marked], said[marked] = True, naming.part if naming else ""
            mine = judged.assign(tag=tag[judged.index], said=said[judged.index])
            every = rates(mine["label"].to_numpy(), mine["tag"].to_numpy())
            found[name] = {**{name: every[name] for name in RATES}, **alarms(mine), **places(mine)}
    return found


def tuned_name(level: str, setting: str, value: float) -> str:
    """Name of a level whose setting has another value."""
    return f"{level}:{setting}={value:g}"


def choose_settings(spec: Spec, frame: pd.DataFrame) -> pd.DataFrame:
    """Choose among the settings of every level with ``tune``, and say which in the column ``setting``.

    The seeds at even places choose: the setting with the highest mean ``score`` over their cells, the published one if
    it is as good. The rows of the others with that setting are the level ``NAME_tuned``; the rest is left out.
    """
    frame = frame.assign(setting="")
    tuning, kept = frame["seed"].isin(spec.seeds[::2]), [frame[frame[PREDICTOR].isin(spec.predictors)]]
    for level, one in spec.predictors.items():
        choices = [tuned_name(level, key, value) for key, some in one.tune.items() for value in some]
        mine = frame[tuning & frame[PREDICTOR].isin([level, *choices])]
        means = mine.groupby([PREDICTOR, *spec.axes])["score"].mean().groupby(PREDICTOR).mean()
        best = max([level, *choices], key=lambda name: means.get(name, -inf))
        chosen = frame[~tuning & (frame[PREDICTOR] == best)]
        if one.tune:
            setting = best.partition(":")[2] or "as published"
            kept.append(chosen.assign(setting=setting, **{PREDICTOR: level + TUNED}))
    return pd.concat(kept, ignore_index=True)
