"""The table of numbers of an experiment, and the axis that predictors add."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.experiments.best_fixed import against_best, counts
from analysis.experiments.numbers import numbers
from analysis.experiments.page import section
from analysis.experiments.results import Results, measure_runs, summary
from analysis.experiments.spec import Drawing, Spec, SpecError, cells
from analysis.figures.experiment.against import draw
from analysis.records.load import Run, load_run
from tests.unit.analysis.test_experiments import CLAIMS, spec_of
from tests.unit.analysis.test_fidelity import story

SYSTEMS: dict[str, Any] = {"axes": {"system": {"bsp": [], "asp": []}}, "figure": {"kind": "bars"}, "seeds": [0, 1, 2]}
TABLE = {"columns": {"jct_s": "JCT (ms)", "wait_frac": "waiting"}, "scale": {"jct_s": 1000}}
RATIOS = {**TABLE, "ratios": ["jct_s"], "over": {"system": "bsp"}}
BARS = {"kind": "bars", "by": "predictor"}
TWO = {"last": {"name": "last_value"}, "early": {"name": "last_value", "lead_s": 0.5}}


def results_of(folder: Path, bsp: list[float], asp: list[float], **given: Any) -> Results:
    """Job completion times by seed; the systems wait for a half and for no time."""
    spec = spec_of(folder, **{**SYSTEMS, "numbers": RATIOS, **given})
    rows = [
        {"system": system, "seed": seed, "jct_s": jct_s, "completed": jct_s < inf, "wait_frac": wait_frac}
        for system, times, wait_frac in (("bsp", bsp, 0.5), ("asp", asp, 0.0))
        for seed, jct_s in enumerate(times)
    ]
    return Results(spec=spec, runs=pd.DataFrame(rows), metas=[])


def test_medians_and_the_ratios_of_pairs(tmp_path: Path) -> None:
    """ASP takes half of BSP's time with every seed: the ratio has no spread, though the times have."""
    heads, rows = numbers(results_of(tmp_path, [2.0, 4.0, 3.0], [1.0, 2.0, 1.5]))
    assert heads == ["system", "JCT (ms)", "over bsp", "waiting"]
    assert [row[0] for row in rows] == ["bsp", "asp"]
    assert rows[0][1].startswith("3000 [")
    assert [row[2] for row in rows] == ["", "0.5"]
    assert [row[3] for row in rows] == ["0.5", "0"]


def test_what_was_never_reached_is_counted(tmp_path: Path) -> None:
    _, rows = numbers(results_of(tmp_path, [2.0, 2.0, 2.0], [1.0, inf, 1.0]))
    assert rows[1][1].endswith(" (1 of 3 never)")
    _, rows = numbers(results_of(tmp_path, [2.0, 2.0, 2.0], [inf, inf, inf]))
    assert rows[1][1:3] == ["never", "never"]
    _, rows = numbers(results_of(tmp_path, [2.0, inf, 2.0], [1.0, 2.0, 3.0]))
    assert rows[1][2] == "0.5", "no interval around a ratio to something that never came"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"numbers": {"columns": {"speed": "speed"}}}, "numbers: speed is not measured (jct_s, wait_frac)"),
        ({"numbers": {**TABLE, "ratios": ["jct_s"]}}, "numbers: ratios and over need each other"),
        ({"numbers": {**RATIOS, "over": {"system": "bps"}}}, "numbers: over: system=bps is no level"),
        ({"predictors": {"a b": {"name": "ema"}}}, "predictors.a b: a level is letters"),
        ({"predictors": {"ema": {"name": "ema", "lead_s": -1.0}}}, "predictors.ema: lead_s=-1: must be a finite"),
        ({"predictors": TWO, "axes": {"predictor": {"a": []}}, "figure": BARS}, "rename the"),
    ],
)
def test_a_bad_table_or_predictor_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"toy_table\.yaml: ") as caught:
        spec_of(tmp_path, **{**SYSTEMS, **changes})
    assert said in str(caught.value)


def test_a_run_has_a_row_for_every_predictor(tmp_path: Path) -> None:
    """Six runs and two predictors; the false alarms of each are drawn by system."""
    figure = {"kind": "groups", "by": "predictor", "along": "system", "value": "false_positive_rate"}
    spec = spec_of(tmp_path, **{**SYSTEMS, "predictors": TWO, "figure": figure})
    assert spec.shown_levels == ["last", "early"]
    assert spec.compared_axes == ["system", "predictor"]
    assert "false_negative_rate" in spec.columns
    found = []
    for cell in cells(spec):
        received = story(cell.levels["system"], seed=cell.seed)
        found.append((cell, load_run(received.write(tmp_path / cell.name))))
    rates = {"bsp": {"last": 0.25, "early": 0.5}, "asp": {"last": 0.5, "early": 1.0}}

    def score(run: Run) -> dict[str, dict[str, float]]:
        return {name: {"false_positive_rate": rate} for name, rate in rates[run.job["strategy"]].items()}

    frame = measure_runs(spec, found, score)
    assert (len(found), len(frame)) == (6, 12)
    drawn = summary(Results(spec=spec, runs=frame, metas=[])).set_index(["system", "predictor"])["value"]
    assert drawn.to_dict() == {(system, name): rate for system, all_ in rates.items() for name, rate in all_.items()}
    whole = Results(spec=spec_of(tmp_path, **SYSTEMS, numbers=TABLE), runs=frame, metas=[run.meta for _, run in found])
    assert "| system | JCT (ms) | waiting |" in section(whole, "x.png", "make")
    assert "JCT (ms)" not in section(replace(whole, claims=CLAIMS), "x.png", "make"), "its claims are there instead"


SPEC = Spec(
    name="star_toy",
    title="toy",
    where="here",
    axes={"case": {"a": (), "b": ()}, "system": {"bsp": (), "asp": (), "star_h": ()}},
    seeds=(0, 1, 2),
    measures=("target_s",),
    figure=Drawing(kind="against", value="target_s", fixed=("bsp", "asp")),
)
VALUES = {
    **{("a", "bsp"): [10.0, 11.0, 12.0], ("a", "asp"): [inf, inf, inf], ("a", "star_h"): [8.0, 8.8, 9.6]},
    **{("b", "bsp"): [30.0, 30.0, 31.0], ("b", "asp"): [20.0, 21.0, 22.0], ("b", "star_h"): [inf, 23.0, 24.2]},
}


def results(values: dict[tuple[str, str], list[float]] | None = None) -> Results:
    rows = [
        {"case": case, "system": system, "seed": seed, "target_s": value}
        for (case, system), each in (values or VALUES).items()
        for seed, value in enumerate(each)
    ]
    return Results(spec=SPEC, runs=pd.DataFrame(rows), metas=[])


def test_ratios_are_by_seed_to_the_fixed_system_with_the_least_median() -> None:
    table = against_best(results()).set_index(["case", "system"])
    assert table.loc[("a", "star_h"), ["best", "best_value", "value"]].tolist() == ["bsp", 11.0, 8.8]
    assert table.loc[("a", "star_h"), ["ratio", "low", "high"]].tolist() == pytest.approx([0.8, 0.8, 0.8])
    assert table.loc[("b", "bsp"), "best"] == "asp"
    assert table["verdict"].to_dict()["a", "star_h"] == "sooner"
    assert bool(table.loc[("a", "bsp"), "fixed"])
    late = table.loc[("b", "star_h")]
    assert late["ratio"] == pytest.approx(1.1)
    assert late["high"] == inf
    assert table.loc[("a", "asp"), "ratio"] == inf
    assert counts(against_best(results()), "system").loc["star_h"].tolist() == [2, 1, 1, 0]


def test_where_no_fixed_system_gets_there_nothing_is_compared() -> None:
    table = against_best(results({("a", "bsp"): [inf] * 3, ("a", "star_h"): [5.0] * 3}))
    assert table["ratio"].isna().all()
    assert set(table["verdict"]) == {"undecided"}


@pytest.mark.painted
def test_the_figure_draws_what_is_compared(tmp_path: Path) -> None:
    path = draw(tmp_path / "toy.png", results())
    assert path.stat().st_size > 5_000
    assert len(pd.read_csv(path.with_suffix(".csv"))) == 6
