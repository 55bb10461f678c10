"""Systems that choose against the best fixed one: worked numbers, and jobs that never get there."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pandas as pd
import pytest

from analysis.experiments.best_fixed import against_best, counts
from analysis.experiments.results import Results
from analysis.experiments.spec import Drawing, Spec
from analysis.figures.experiment.against import draw

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
