"""Predictors that an experiment scores on its runs: as python run.py predictors does, or earlier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.experiments.spec import Prediction, Spec, SpecError, cells
from analysis.measures.prediction import RATES, alarms, scores
from analysis.records.load import Run, load_run
from analysis.records.sums import SUMS
from stragglab.grids.experiments import SCORES, score_in_forks
from stragglab.tables.predictor_rates import choose_settings, fitted_files, rates_of, score
from stragglab.tables.predictor_scores import parse, tag_rows
from tests.support.records import asp_story, bsp_story, disturbance
from tests.unit.analysis.test_experiments import spec_of

PLAN = [disturbance(0.1, 0.3, "worker:1", 0.1), disturbance(0.4, 0.7, "worker:2", 0.1)]


@pytest.fixture(params=[bsp_story, asp_story], ids=["bsp", "asp"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return load_run(request.param(epochs=6, plan=PLAN).write(tmp_path / "run"))


def test_rates_are_those_of_the_script_that_scores_records(run: Run) -> None:
    rows = next(tag_rows([run], parse("ema:alpha=0.5", 0.2), "realised", 0.2))
    job = scores(rows).set_index("level").loc["job"]
    found = score(run, {"mine": Prediction(name="ema", settings={"alpha": 0.5})})
    expected = {**{name: job[name] for name in RATES}, **alarms(rows)}
    assert {name: found["mine"][name] for name in expected} == pytest.approx(expected, nan_ok=True)
    assert 0 < found["mine"]["false_negative_rate"] < 1


def test_who_is_asked_earlier_knows_less(run: Run) -> None:
    """Three iterations earlier nearly every episode is missed for longer."""
    now, early = Prediction(name="last_value"), Prediction(name="last_value", lead_s=0.2)
    found = score(run, {"now": now, "early": early})
    assert found["early"]["false_negative_rate"] > found["now"]["false_negative_rate"]


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [("emma", {}, "emma"), ("ema", {"beta": 1}, "beta"), ("oracle", {}, "oracle: reads the plan; add labels: plan")],
)
def test_an_impossible_predictor_is_refused_before_any_run(
    name: str, settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    spec: Spec = spec_of(tmp_path, predictors={"one": {"name": name, "settings": settings}})
    with pytest.raises(SpecError, match=r"toy_table: predictors\.one: ") as caught:
        rates_of(spec)
    assert said in str(caught.value)


def test_captions_name_the_files_that_predictors_were_scored_with(tmp_path: Path) -> None:
    asked = {name: {"name": name} for name in ("star", "ema", "lstm_ratio")}
    found = fitted_files(
        spec_of(tmp_path, predictors=asked | {"again": {"name": "star", "settings": {"regressor": "mlp"}}})
    )
    assert [name.split()[0] for name in found] == ["deviation", "resources"]
    assert (fitted_files(spec_of(tmp_path)), rates_of(spec_of(tmp_path))) == ([], None)


def test_one_half_of_the_seeds_chooses_a_setting_and_the_other_judges_it(tmp_path: Path) -> None:
    """Seeds 0 and 2 prefer alpha 0.5, with the means 0.7, 0.4 and 0.6; it is reported with seeds 1 and 3."""
    asked = {"ema": {"name": "ema", "tune": {"alpha": [0.5, 0.9]}}, "oracle": {"name": "last_value"}}
    spec: Spec = spec_of(tmp_path, predictors=asked, seeds=[0, 1, 2, 3])
    levels = dict(zip(spec.axes, (next(iter(axis)) for axis in spec.axes.values()), strict=True))
    scored = {"ema": [0.5, 0.9, 0.3, 0.9], "ema:alpha=0.5": [0.6, 0.1, 0.8, 0.2], "ema:alpha=0.9": [0.6, 1.0, 0.6, 1.0]}
    scored["oracle"] = [1.0] * 4
    rows = [
        {**levels, "seed": seed, "predictor": name, "score": value}
        for name, values in scored.items()
        for seed, value in enumerate(values)
    ]
    found = choose_settings(spec, pd.DataFrame(rows))
    assert {*found["predictor"]} == {"ema", "oracle", "ema_tuned"} == {*spec.levels["predictor"]}
    mine = found[found["predictor"] == "ema_tuned"]
    assert mine[["seed", "score", "setting"]].to_numpy().tolist() == [[1, 0.1, "alpha=0.5"], [3, 0.2, "alpha=0.5"]]
    assert found.loc[found["predictor"] == "ema", "score"].tolist() == scored["ema"]


def test_a_setting_that_is_no_better_stays_as_published(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, predictors={"ema": {"name": "ema", "tune": {"alpha": [0.5]}}}, seeds=[0, 1])
    levels = dict(zip(spec.axes, (next(iter(axis)) for axis in spec.axes.values()), strict=True))
    rows = [
        {**levels, "seed": seed, "predictor": name, "score": 0.5}
        for name in ("ema", "ema:alpha=0.5")
        for seed in (0, 1)
    ]
    found = choose_settings(spec, pd.DataFrame(rows)).set_index("predictor")
    assert found.loc["ema_tuned", "setting"] == "as published"


def test_other_values_of_a_setting_are_scored_as_if_they_were_levels(run: Run) -> None:
    alone = score(run, {"fast": Prediction(name="ema", settings={"alpha": 0.9})})["fast"]
    found = score(run, {"mine": Prediction(name="ema", tune={"alpha": (0.9,)})})
    assert [*found] == ["mine", "mine:alpha=0.9"]
    assert found["mine:alpha=0.9"] == pytest.approx(alone, nan_ok=True)


def test_the_oracle_has_no_regret_and_nobody_else_is_asked_to_be_as_good(run: Run) -> None:
    """It knows the plan: no miss, no false alarm, always the right worker, never silent."""
    oracle = {"all_seeing": Prediction(name="oracle"), "late": Prediction(name="last_value")}
    found = score(run, oracle, "plan")
    best = {"f1": 1.0, "score": 1.0, "located_frac": 1.0, "abstained_frac": 0.0, "caught_frac": 1.0, "delay_iters": 0.0}
    best |= {"false_alarms_per_1000": 0.0, "precision": 1.0, "recall": 1.0}
    assert {name: found["all_seeing"][name] for name in best} == best
    assert found["late"]["score"] < 1.0


@pytest.mark.long(like="test_one_half_of_the_seeds_chooses_a_setting_and_the_other_judges_it")
def test_scores_stay_until_the_record_or_the_predictors_change(run: Run, tmp_path: Path) -> None:
    """A stored score that was changed by hand is what a second call returns; with another record it is not."""
    (run.path / SUMS).write_text("1")
    spec = spec_of(tmp_path, predictors={"mine": {"name": "ema"}})
    cell = next(cells(spec))
    first = score_in_forks(spec, [(cell, run)], tmp_path)
    assert first is not None
    assert first(run)["mine"] == pytest.approx(score(run, spec.predictors)["mine"], nan_ok=True)
    place = tmp_path / SCORES / f"{cell.name}.json"
    stored = json.loads(place.read_text())
    stored["rates"]["mine"]["f1"] = 7.0
    place.write_text(json.dumps(stored))

    def f1(spec: Spec) -> float:
        found = score_in_forks(spec, [(cell, run)], tmp_path)
        assert found is not None
        return found(run)["mine"]["f1"]

    assert f1(spec) == 7.0
    assert f1(spec_of(tmp_path, predictors={"mine": {"name": "last_value"}})) < 1.0
    place.write_text(json.dumps(stored))
    (run.path / SUMS).write_text("2")
    assert f1(spec) < 1.0
