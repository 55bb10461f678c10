"""Panels of several measures and distributions, and the paper's marks: what follows from its ratios."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.claims.ledger import Claim
from analysis.claims.related import extend_by_ratios
from analysis.experiments.plotted import numbers_of_figure
from analysis.experiments.results import RATIO, VALUE, Results, measure_sets
from analysis.experiments.samples import pool
from analysis.experiments.spec import Shown, SpecError, cells
from analysis.figures.bars import draw_bars, limit_of
from analysis.figures.experiment import bars, cdf, dots
from analysis.figures.experiment.curves import draw_curves
from analysis.figures.experiment.groups import draw_groups
from analysis.figures.style import Look
from analysis.records.cluster import load_cluster
from tests.unit.analysis.test_cluster_experiments import SETS, told
from tests.unit.analysis.test_experiments import spec_of


def said(how: str, value: float, subject: str, base: str, unit: str = "%", **more: Any) -> Claim:
    """A comparison of two systems."""
    given: dict[str, Any] = {"against": ({"system": base},), "subject": {"system": subject}, **more}
    return Claim(id=f"toy.{subject}_{base}", where="I", check="ratio", how=how, value=value, unit=unit, **given)  # type: ignore[arg-type]


def found_from(claims: list[Claim], **known: float) -> dict[str, tuple[float, float]]:
    cells_of: dict[tuple[str, ...], tuple[float, float]] = {(name,): (value, value) for name, value in known.items()}
    return {name: ends for (name,), ends in extend_by_ratios(claims, ["system"], cells_of).items()}


def test_a_ratio_gives_one_value_from_the_other() -> None:
    cases = [("lower", 24, "%", 76.0), ("longer", 24, "%", 124.0), ("faster", 25, "%", 80.0), ("times", 2, "x", 50.0)]
    for how, given, unit, value in (*cases, ("excess", 7, "s", 107.0)):
        claim = said(how, given, "ours", "base", unit=unit)
        assert found_from([claim], base=100.0)["ours"] == pytest.approx((value, value))
        assert found_from([claim], ours=value)["base"] == pytest.approx((100.0, 100.0))


def test_ratios_are_followed_from_cell_to_cell_and_the_shortest_way_counts() -> None:
    chain = [said("lower", 50, "ours", "base"), said("lower", 20, "ours", "other"), said("lower", 90, "other", "far")]
    found = found_from(chain, base=80.0)
    assert {name: ends[0] for name, ends in found.items()} == pytest.approx(
        {"base": 80.0, "ours": 40.0, "other": 50.0, "far": 500.0}
    )
    twice = [said("lower", 77, "h", "base"), said("lower", 84, "ml", "base")]
    twice += [said("lower", 58, "h", "asp"), said("lower", 69, "ml", "asp")]
    assert found_from(twice, base=1.0)["asp"] == pytest.approx((0.16 / 0.31, 0.23 / 0.42)), "its rows disagree"


def test_a_range_has_two_ends_and_a_bound_gives_nothing() -> None:
    ends = said("longer", 0, "ours", "base", accept=(0, None), magnitude=(64, 72))
    assert found_from([ends], base=100.0)["ours"] == pytest.approx((164.0, 172.0))
    both = said("faster", 325, "ours", "base", accept=(225, 325))
    assert found_from([both], ours=1.0)["base"] == pytest.approx((3.25, 4.25))
    side = said("longer", 64, "ours", "base", accept=(0, None))
    assert found_from([side], base=100.0)["ours"] == pytest.approx((164.0, 164.0)), "any side is accepted"
    bound = said("lower", 30, "ours", "base", accept=(30, None))
    several = said("lower", 30, "ours", "base", against=({"system": "base"}, {"system": "other"}))
    order = said("order", 30, "ours", "base")
    assert set(found_from([bound, several, order], base=100.0)) == {"base"}


def experiment(folder: Path, claims: list[Claim], **drawing: Any) -> Results:
    """JCT of three systems with two seeds."""
    axes: dict[str, Any] = {"system": {"bsp": [], "asp": [], "ssp": []}}
    spec = spec_of(folder, settings=[], axes=axes, figure={"kind": "bars", "panels": None, **drawing})
    rows = [
        {"system": system, "seed": seed, "jct_s": value + seed, "completed": True}
        for system, value in (("bsp", 99.5), ("asp", 59.5), ("ssp", 79.5))
        for seed in (0, 1)
    ]
    return Results(spec=spec, runs=pd.DataFrame(rows), metas=[], claims=claims)


def marks_of(found: Results) -> dict[str, tuple[float, str]]:
    paper = numbers_of_figure(found).paper
    return {row.system: (pytest.approx(row.value), row.how) for row in paper.itertuples()}  # type: ignore[misc]


def test_ratios_are_to_the_papers_values_or_to_our_anchor(tmp_path: Path) -> None:
    value = Claim(id="toy.bsp", where="I", check="number", value=200.0, unit="s", subject={"system": "bsp"})
    ratio, other = said("lower", 50, "asp", "bsp"), said("lower", 25, "ssp", "bsp")
    assert marks_of(experiment(tmp_path, [ratio])) == {}, "nothing to begin with"
    assert marks_of(experiment(tmp_path, [value, ratio])) == {"bsp": (200.0, VALUE), "asp": (100.0, RATIO)}
    ours = experiment(tmp_path, [ratio], anchor={"system": ["bsp"]})
    assert marks_of(ours) == {"asp": (50.0, RATIO)}, "our median is 100 s, which is no mark of the paper's"
    assert marks_of(replace(ours, marked=[other])) == {"asp": (50.0, RATIO), "ssp": (75.0, RATIO)}
    both = experiment(tmp_path, [value, ratio], anchor={"system": ["bsp"]})
    assert marks_of(both) == {"bsp": (200.0, VALUE), "asp": (50.0, RATIO)}
    printed = experiment(tmp_path, [ratio], printed=[{"at": {"system": "asp"}, "value": 45.0}])
    assert marks_of(printed) == {"asp": (45.0, VALUE), "bsp": (90.0, RATIO)}
    table = numbers_of_figure(both).together.set_index("system")
    assert table.loc["asp", ["paper", "paper_how"]].tolist() == [50.0, RATIO]


@pytest.mark.parametrize(
    ("drawing", "why"),
    [
        ({"kind": "bars", "shows": {"jct_s": {"label": "s"}}}, "figure: shows: has no effect with kind=bars"),
        ({"kind": "dots", "shows": {"nothing": {"label": "s"}}}, "figure: shows: nothing is not measured"),
        ({"kind": "cdf", "shows": {"changes": {"label": "s"}}}, "figure: shows: changes is not measured"),
        ({"kind": "bars", "anchor": {"system": ["ssp"]}}, "figure: anchor: system=ssp is no level"),
        ({"kind": "bars", "printed": [{"at": {"system": "bsp"}, "value": 1.0}]}, "names no single cell"),
    ],
)
def test_marks_and_panels_that_make_no_sense_are_refused(drawing: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        spec_of(tmp_path, figure={"panels": None, **drawing})
    assert why in str(error.value)


def samples(rows: list[tuple[str, str, str, float, int]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["system", "measure", "group", "value", "count"])
    return pool([frame.assign(seed=0)], ["system", "seed"])


def open_ended() -> pd.DataFrame:
    """Bars and points of which some lie far beyond the others, or have no end, or an interval without one."""
    table = pd.DataFrame({"strategy": list("abcdef"), "value": [50.0, 60.0, 70.0, 1200.0, inf, nan]})
    table = table.assign(missed=[0, 1, 0, 0, 2, 0], runs=2, low=[40.0, -inf, 60.0, 900.0, nan, nan], kind="x")
    return table.assign(high=[60.0, inf, 80.0, 1500.0, nan, nan], least=table["value"] / 2, most=5 * table["value"])


PAPER = pd.DataFrame([("a", 4.0, 1.0, VALUE), ("b", 62.0, 30.0, RATIO)], columns=["strategy", "value", "std", "how"])
LOOKS = {name: Look("black", marker="o") for name in "abcdef"}


def texts_of(axes: Any) -> list[str]:
    return [text.get_text().strip() for text in axes.texts]


def test_what_is_beyond_an_axis_or_never_ended_is_said_in_bars_groups_and_dots() -> None:
    table, axes = open_ended(), Figure().subplots(1, 5)
    draw_bars(axes[0], table.add_suffix("_s").rename(columns={"strategy_s": "strategy", "missed_s": "missed",
              "runs_s": "runs"}), PAPER[:0].assign(value_s=[]), LOOKS, "s", "missed", marks={"b": (62.0, 90.0)},
              limit=70.0)  # fmt: skip
    assert [round(patch.get_width()) for patch in axes[0].patches] == [50, 60, 70, 90], "to the largest of the others"
    said = texts_of(axes[0])
    assert "1200\n[900.0, 1500]" in said
    assert any("1 of 2 missed" in text for text in said)
    draw_groups(axes[1], table[:5], "kind", "strategy", LOOKS)
    assert texts_of(axes[1]) == ["1 of 2 never", "never ends"]
    assert len([line for line in axes[1].lines if line.get_linestyle() == ":"]) == 1, "an interval without ends"
    dots.draw_dots(axes[2], table, PAPER[:0], LOOKS, Shown("s", "x"))
    assert axes[2].get_xlim()[1] < 400
    assert texts_of(axes[2]) == ["50", "60\n1 of 2 never", "70", "1200", "2 of 2 never", "not measured"]
    dots.draw_dots(axes[3], table, PAPER[:0], LOOKS, Shown("s", "x", log=True))
    low, high = axes[3].get_xlim()
    assert (axes[3].get_xscale(), low < 25.0, high > 6000.0) == ("log", True, True)
    dots.draw_dots(axes[2], table[5:], PAPER[:0], LOOKS, Shown("s", "x"))
    assert axes[2].get_xlim() == (0.0, 1.0), "nothing was measured"
    bars.widen(axes[4], [0.009, 3.2, 4662.0, inf, nan, 0.0])
    assert axes[4].get_xlim()[0] < 0.009 < 4662.0 < axes[4].get_xlim()[1]
    assert limit_of([50.0, 71.0, 60.0, 247.0]) == 71.0
    assert limit_of([10155.0, 8475.0, 7790.0, 2725.0]) == limit_of([2.0, 100.0]) == limit_of([]) == inf


def test_the_papers_ranges_are_shaded_and_a_perplexity_beyond_its_axis_is_on_its_last_tick() -> None:
    axes = Figure().subplots(1, 2)
    bars.draw_paper(axes[0], PAPER, ["a", "b"])
    drawn = [float(np.asarray(path.vertices)[0, 0]) for lines in axes[0].collections[:2] for path in lines.get_paths()]
    assert (drawn, len(axes[0].collections)) == ([4.0, 32.0, 92.0], 3), "a standard deviation is no range"
    frame = pd.DataFrame({"label": "a", "t_s": [0.0, 1.0], "median": [9.0, 40.0], "low": 2.0, "high": 90.0})
    draw_curves(axes[1], frame, LOOKS, "perplexity")
    assert np.asarray(axes[1].lines[0].get_ydata()).tolist() == [9.0, 12.0]
    assert axes[1].get_yticklabels()[-1].get_text() == "\N{GREATER-THAN OR EQUAL TO} 12"


def test_a_panel_has_the_percentiles_over_jobs_and_far_values_as_arrows(tmp_path: Path) -> None:
    found = experiment(tmp_path, [said("lower", 50, "asp", "bsp")], anchor={"system": ["bsp"]}, kind="dots")
    known = samples([("bsp", "jct_s", "", float(value), 1) for value in range(1, 201)] + [("asp", "jct_s", "", inf, 3)])
    found = replace(found, samples=known)
    table = dots.with_percentiles(numbers_of_figure(found).ours, found, found.spec.figure.alone).set_index("system")
    assert table.loc["bsp", ["least", "most", "jobs"]].tolist() == [2.0, 198.0, 200]
    assert table.loc["asp", ["least", "most", "jobs"]].tolist() == [inf, inf, 3]
    assert table.loc["ssp", "jobs"] == 0
    picture = dots.draw(tmp_path / "x.png", found)
    shown = pd.read_csv(picture.with_suffix(".csv")).set_index("system")
    assert shown.loc["bsp", ["value", "least", "most", "jobs"]].tolist() == [100.0, 2.0, 198.0, 200]
    assert shown.loc["asp", ["measure", "paper", "paper_how"]].tolist() == ["jct_s", 50.0, RATIO]
    assert "1st to 99th percentile" in picture.with_suffix(".txt").read_text()


def test_a_distribution_is_a_share_of_all_of_its_values(tmp_path: Path) -> None:
    found = experiment(tmp_path, [], kind="cdf", scale=100.0)
    rows = [("bsp", "jct_s", "a", 0.5, 3), ("bsp", "jct_s", "a", 0.2, 1), ("bsp", "jct_s", "b", 0.1, 5)]
    table = cdf.distribution(replace(found, samples=samples(rows)), found.spec.figure.alone)
    assert table[["group", "value", "percent"]].to_numpy().tolist() == [
        ["a", 20.0, 25.0],
        ["a", 50.0, 100.0],
        ["b", 10.0, 100.0],
    ]
    runs = cdf.distribution(found, found.spec.figure.alone)
    assert runs.loc[runs["system"] == "bsp", ["value", "percent"]].to_numpy().tolist() == [
        [9950.0, 50.0],
        [10050.0, 100.0],
    ]


def test_groups_of_a_distribution_are_drawn(tmp_path: Path) -> None:
    shown = {"jct_s": {"label": "s", "groups": {"a": "first"}, "marks": {"b": [[1.0, 50.0]]}}}
    found = experiment(tmp_path, [], kind="cdf", shows=shown)
    found = replace(found, samples=samples([("bsp", "jct_s", "a", 0.5, 3), ("bsp", "jct_s", "b", 0.1, 5)]))
    picture = cdf.draw(tmp_path / "x.png", found)
    assert set(pd.read_csv(picture.with_suffix(".csv"))["measure"]) == {"jct_s"}


def test_samples_of_a_set_by_hand(tmp_path: Path) -> None:
    """Job a: its worker 1 straggles in 3 of 6 iterations by its link, at 1.5 of 1 s; b's never."""
    names = ["deviations", "straggler_shares", "communication_share", "changes", "episode_lengths"]
    names += ["deviations_by_servers", "host_cpu", "host_link"]
    shown = {name: {"label": name} for name in names}
    spec = spec_of(tmp_path, **{**SETS, "paired": {}, "figure": {"kind": "cdf", "shows": shown}})
    cell = next(iter(cells(spec)))
    story = told()
    story.samples = [(1.0, 1, 0.0, 6.0, 0.0, 0.0)]
    _, found = measure_sets(spec, [(cell, load_cluster(story.write(tmp_path / "run")))])
    assert set(found["system"]) == {"bsp"}
    parts = {
        name: {
            str(group): {round(float(value), 3): int(count) for value, count in mine[["value", "count"]].to_numpy()}
            for group, mine in there.groupby("group")
        }
        for name, there in found.groupby("measure")
    }
    assert parts["straggler_shares"]["iteration"] == {0.5: 1, 0.0: 1}
    assert parts["straggler_shares"]["compute"] == {0.0: 2}
    assert parts["episode_lengths"] == {"stragglers": {2.0: 1, 1.0: 1}, "longest of a job": {2.0: 1}}
    assert sum(parts["deviations"]["iteration"].values()) == 12
    assert sum(count for up_to, count in parts["deviations"]["communication"].items() if up_to > 0.2) == 3
    assert parts["communication_share"][""] == {0.4: 21, 0.6: 3}
    assert parts["changes"][""] == {0.0: 16, 0.5: 2, -0.33: 2}
    assert sum(map(sum, (part.values() for part in parts["deviations_by_servers"].values()))) == 24
    assert parts["host_cpu"] == {"servers=1": {0.75: 1}}


def test_jobs_of_a_set_are_the_samples_of_their_means(tmp_path: Path) -> None:
    shown = {"jct_mean_s": {"label": "s"}, "stragglers_per_job": {"label": "n"}}
    spec = spec_of(tmp_path, **{**SETS, "paired": {}, "figure": {"kind": "dots", "shows": shown}})
    cell = next(iter(cells(spec)))
    runs, found = measure_sets(spec, [(cell, load_cluster(told().write(tmp_path / "run")))])
    values = {name: sorted(mine["value"]) for name, mine in found.groupby("measure")}
    assert values == {"jct_mean_s": [10.0, 12.0], "stragglers_per_job": [0.0, 3.0]}
    assert runs["jct_mean_s"].tolist() == [11.0]
