"""Predictors that an experiment scores on its runs: as python run.py predictors does, or earlier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.experiments.spec import Prediction, Spec, SpecError
from analysis.measures.prediction import RATES, alarms, scores
from analysis.records.load import Run, load_run
from stragglab.tables.predictor_rates import fitted_of, rates_of, scored
from stragglab.tables.predictor_scores import parse, tagged
from tests.support.records import asp_story, bsp_story, disturbance
from tests.unit.analysis.test_experiments import spec_of

PLAN = [disturbance(0.1, 0.3, "worker:1", 0.1), disturbance(0.4, 0.7, "worker:2", 0.1)]


@pytest.fixture(params=[bsp_story, asp_story], ids=["bsp", "asp"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return load_run(request.param(epochs=6, plan=PLAN).write(tmp_path / "run"))


def test_rates_are_those_of_the_script_that_scores_records(run: Run) -> None:
    rows = next(tagged([run], parse("ema:alpha=0.5", 0.2), "realised", 0.2))
    job = scores(rows).set_index("level").loc["job"]
    found = scored(run, {"mine": Prediction(name="ema", settings={"alpha": 0.5})})
    expected = {**{name: job[name] for name in RATES}, **alarms(rows)}
    assert found == {"mine": pytest.approx(expected, nan_ok=True)}
    assert 0 < found["mine"]["false_negative_rate"] < 1


def test_who_is_asked_earlier_knows_less(run: Run) -> None:
    """Three iterations earlier nearly every episode is missed for longer."""
    now, early = Prediction(name="last_value"), Prediction(name="last_value", lead_s=0.2)
    found = scored(run, {"now": now, "early": early})
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
    found = fitted_of(
        spec_of(tmp_path, predictors=asked | {"again": {"name": "star", "settings": {"regressor": "mlp"}}})
    )
    assert [name.split()[0] for name in found] == ["deviation", "resources"]
    assert (fitted_of(spec_of(tmp_path)), rates_of(spec_of(tmp_path))) == ([], None)
