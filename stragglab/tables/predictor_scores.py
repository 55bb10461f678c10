"""Predictors as a command line names them, and their tags in runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

import pandas as pd

from analysis.measures.labels import case_labels, strategy_labels
from analysis.measures.prediction_labels import labelled_windows, losses, timed_iterations, truth
from analysis.records.load import Run
from predictors.backtest import backtest
from predictors.oracle import PlannedWindow
from predictors.registry import OF_RESOURCES, STRAGGLER_PREDICTORS, settings_of, straggler_predictor
from predictors.stragglers import Observation, StragglerPredictor
from runtime.config.instantiate import TARGET, instantiate
from runtime.errors import ConfigError

ORACLE, TOLERANCE = "oracle", "tolerance_frac"


class Asked(NamedTuple):
    """A requested predictor: ``text``, its name, or the path of a class of the user's, and its settings."""

    text: str
    name: str
    settings: dict[str, Any]

    def make(self, plan: Sequence[PlannedWindow] = ()) -> StragglerPredictor:
        """A new one; raises ``ValueError`` or :class:`ConfigError` for what it cannot be."""
        if "." not in self.name:
            return straggler_predictor(self.name, self.settings, plan)
        made = instantiate({TARGET: self.name, **self.settings}, self.name)
        if not isinstance(made, StragglerPredictor):
            raise ValueError(f"{self.name}: is no predictor; it needs the methods update, forget and tags")
        return made


def parse(text: str | None, tolerance_frac: float) -> list[Asked]:
    """Parse ``ema,nvrx:threshold=0.8``; without a text, every predictor. Raises :class:`ConfigError`."""
    words = list(STRAGGLER_PREDICTORS) if text is None else [word.strip() for word in text.split(",")]
    asked = []
    for word in dict.fromkeys(words):
        name, *pairs = word.split(":")
        try:
            usual = {TOLERANCE: tolerance_frac} if "." not in name and TOLERANCE in settings_of(name) else {}
            one = Asked(word, name, usual | dict(_setting(word, pair) for pair in pairs))
            one.make()
        except ValueError as error:
            raise ConfigError(f"--predictors: {error}") from None
        asked.append(one)
    return asked


def _setting(word: str, pair: str) -> tuple[str, Any]:
    key, equals, text = pair.partition("=")
    if not equals:
        raise ValueError(f"{word}: {pair or 'what follows the colon'} must be written setting=value")
    for kind in (int, float):
        try:
            return key, kind(text)
        except ValueError:
            continue
    return key, text


def records_receptions(run: Run) -> bool:
    """Whether the record says what iterations received."""
    return bool(timed_iterations(run)["cpu_frac"].notna().any())


def without_resources(asked: list[Asked], text: str | None) -> list[Asked]:
    """Predictors that need no resources; raises :class:`ConfigError` if another was asked for by name."""
    if text is not None and (others := [each.text for each in asked if each.name in OF_RESOURCES]):
        raise ConfigError(
            f"--predictors: {others[0]} needs the processor time of iterations, and a run has none; record runs of "
            "modelled machines (runtime=virtual cluster=hosts) or live ones, or leave it out"
        )
    return [each for each in asked if each.name not in OF_RESOURCES]


def check_tolerance(tolerance_frac: float) -> float:
    """The fraction; raises :class:`ConfigError` for one that cannot be."""
    if not 0 <= tolerance_frac < inf:
        raise ConfigError(f"--tolerance-frac={tolerance_frac:g}: must be a finite number, 0 or more")
    return tolerance_frac


def tag_rows(runs: Sequence[Run], asked: Sequence[Asked], labels: str, tolerance_frac: float) -> Iterator[pd.DataFrame]:
    """For each run and predictor, the rows that :mod:`analysis.measures.prediction` scores, with their origin."""
    metas = [run.meta for run in runs]
    groups = [", ".join(filter(None, pair)) for pair in zip(strategy_labels(metas), case_labels(metas), strict=True)]
    names = [str(run.meta.get("run_id", run.path.name)) for run in runs]
    for run, name, group in zip(runs, names, groups, strict=True):
        rows, plan = timed_iterations(run), labelled_windows(run, labels)
        reading = [each.text for each in asked if each.name == ORACLE]
        if not len(plan) and (labels != "realised" or reading):
            cure = "leave it out of --predictors" if labels == "realised" else "choose --labels realised"
            wanted = reading[0] if labels == "realised" else f"--labels {labels}"
            raise ConfigError(f"{run.path}: its plan disturbs no worker, so there is nothing for {wanted}; {cure}")
        label = truth(run, rows, labels, tolerance_frac)
        if not label.notna().any():
            raise ConfigError(f"{run.path}: has one worker and none to compare it with; score a run with two or more")
        about = {"group": group, "run": name if names.count(name) == 1 else str(run.path), "seed": run.meta["seed"]}
        seen, lost, reads = observations(rows), losses(run), planned_windows(plan)
        for each in asked:
            tags = backtest(each.make(reads), seen, lost)
            frame = rows.assign(**about, predictor=each.text, label=label, tag=tags)
            yield frame[frame["label"].notna()].astype({"label": "bool"})


def planned_windows(plan: pd.DataFrame) -> list[PlannedWindow]:
    """The rows of :func:`labelled_windows` as the oracle reads them."""
    return [PlannedWindow(*one) for one in plan.itertuples(index=False)]


def observations(rows: pd.DataFrame) -> list[tuple[float, Observation]]:
    """Starts in seconds and observations of rows of :func:`timed_iterations`, for :func:`predictors.backtest`."""
    columns = zip(*(rows[name].tolist() for name in ("begun_s", *Observation._fields)), strict=True)
    return [(begun_s, Observation(*rest)) for begun_s, *rest in columns]
