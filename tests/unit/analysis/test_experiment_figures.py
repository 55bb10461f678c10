"""Figures of experiments: every kind draws from a small made-up experiment, with the numbers next to it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy import stats

from analysis.claims.ledger import Claim
from analysis.experiments.plotted import numbers_of_figure, panels
from analysis.experiments.results import Results, measure_runs
from analysis.experiments.spec import Drawing, cells, load_spec
from analysis.figures import elastic
from analysis.figures.bars import number_text
from analysis.figures.experiment import bars, curves, loss
from analysis.figures.experiment.servers import bin_rates
from analysis.figures.experiment.workers import OTHERS, RESTARTED, over_time, roles
from analysis.figures.style import level_looks, looks
from analysis.records.load import Run, load_run
from tests.support.records import Simulation, Story, disturbance
from tests.unit.analysis.test_experiments import written
from tests.unit.analysis.test_fidelity import PNG, kept, story

FOLDER = Path(__file__).parents[3] / "analysis" / "figures" / "experiment"
KINDS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def restarted(folder: Path) -> Run:
    """Worker 1 is slow until it is restarted."""
    received = Story(num_samples=1024, epochs=2, target=None, plan=[disturbance(0.0, 1.5, "worker:1", 0.2)])
    Simulation(received, "bsp", lose=(1, 1.5, 2.0)).run()
    return load_run(received.write(folder))


def results(folder: Path, kind: str, without: list[dict[str, str]] | None = None, **drawing: Any) -> Results:
    axes = {"size": {"1": [], "2": []}, "system": {"bsp": [], "asp": []}}
    figure = {"kind": kind, "panels": None, **drawing}
    spec = load_spec(written(folder, settings=[], axes=axes, without=without or [], figure=figure))
    found = []
    for cell in cells(spec):
        factor = float(cell.levels["size"])
        found.append((cell, kept(folder.parent / "figures", cell.levels["system"], seed=cell.seed, factor=factor)))
    bsp = {"size": "1", "system": "bsp"}
    claim = Claim(id="toy.x", where="I", check="number", value=0.5, std=0.1, unit="s", subject=bsp)
    first = {cell.name: (cell, run) for cell, run in found if cell.seed == 0}
    metas = [run.meta for _, run in found]
    told_of = [(cell, run.tables.evaluations) for cell, run in found]
    frame = measure_runs(spec, found)
    return Results(spec=spec, runs=frame, metas=metas, claims=[claim], records=first, evaluations=told_of)


PAINTED = ("bars", "delays")
"""For every commit; the other kinds are long."""


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.painted] * (kind in PAINTED)) for kind in KINDS if kind != "agreement"],
)
def test_every_kind_is_drawn_with_names_for_people(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of strategies as everywhere, and of other levels those of ``figure.names``; no ids."""
    pages: list[Figure] = []
    module = import_module(f"analysis.figures.experiment.{kind}")
    saves = elastic if kind == "elastic" else module
    save = saves.save

    def keep(page: Figure, *given: Any) -> Path:
        pages.append(page)
        return save(page, *given)

    monkeypatch.setattr(saves, "save", keep)
    monkeypatch.setattr(loss, "METRIC", "accuracy")  # made-up runs have no other
    along = kind in ("lines", "delays", "groups", "map")
    given: dict[str, Any] = {"along": "size"} if along else {}
    given |= {"panels": "size"} if kind in ("bars", "loss", "curves") else {}
    given |= {"fixed": ["bsp"]} if kind == "against" else {}
    given |= {"shows": {"jct_s": {"label": "seconds"}}} if kind in ("elastic", "dots", "cdf") else {}
    names = {"1": "one", "2": "two", "asp": "The other"}
    picture = module.draw(tmp_path / "x.png", results(tmp_path, kind, names=names, **given))
    assert picture.read_bytes().startswith(PNG)
    shown = pd.read_csv(picture.with_suffix(".csv"))
    assert len(shown)
    if (along and kind != "map") or kind == "bars":
        assert shown.loc[(shown["size"] == 1) & (shown["system"] == "bsp"), "paper"].tolist() == [0.5]
    texts = {text.get_text() for text in pages[0].findobj(Text) if isinstance(text, Text)}
    words = {word.strip(",:") for text in texts for word in text.split()}
    assert not words & {"bsp", "asp"}
    if kind != "nodes":  # the one kind without levels
        assert "BSP" in words
        assert kind in ("gantt", "servers", "delays") or words & {"one", "two"} or "other" in words
    if given.get("panels"):
        assert {"one", "two"} <= {axes.get_title(loc="left") for axes in pages[0].axes}


def drawn(module: ModuleType, tmp_path: Path, found: Results) -> Figure:
    """The page that it would save."""
    pages: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "save", lambda page, *_: pages.append(page))
        module.draw(tmp_path / "x.png", found)
    return pages[0]


def names_of(axes: Axes, along: str = "x") -> list[str]:
    labels = axes.get_xticklabels() if along == "x" else axes.get_yticklabels()
    return [text.get_text() for text in labels]


def test_curves_without_lines_show_where_each_level_converged_with_intervals(tmp_path: Path) -> None:
    """Student's, as in the tables; of two seeds the median's bootstrap would span no more than both."""
    found = results(tmp_path, "curves", label="converged", value="jct_s")
    page = drawn(curves, tmp_path, replace(found, runs=found.runs.assign(jct_s=found.runs["seed"].astype(float))))
    assert [axes.get_title(loc="left") for axes in page.axes] == ["", "converged"]
    assert names_of(page.axes[1]) == ["BSP", "ASP"]
    line = next(line for line in page.axes[-1].lines if line.get_marker() == "None")
    assert tuple(line.get_ydata()) == pytest.approx(stats.t.interval(0.95, 1, loc=0.5, scale=0.5))  # type: ignore[arg-type]
    assert "Student's t" in str(page.get_label())


def test_final_values_are_those_of_each_panel(tmp_path: Path) -> None:
    """Jobs of size 2 take twice as long: their times are not mixed with the others'. Panels have one scale."""
    found = results(tmp_path, "curves", panels="size", label="converged", value="jct_s")
    first, second, ends = drawn(curves, tmp_path, found).axes
    points = [float(line.get_ydata()[0]) for line in ends.lines if line.get_markersize() == 5]  # type: ignore[index]
    assert points == found.runs.groupby(["size", "system"], sort=False)["jct_s"].median().tolist()
    assert points[2] > 1.5 * points[0]
    assert names_of(ends) == ["1 size", "2 size"]
    assert first.get_ylim() == second.get_ylim()


def test_a_panel_shows_its_level_of_ours_and_the_papers(tmp_path: Path) -> None:
    found = results(tmp_path, "bars", panels="size")
    each = panels(numbers_of_figure(found), found)
    assert [(level, set(mine.ours["size"]), list(mine.paper["size"])) for level, mine in each] == [
        ("1", {"1"}, ["1"]),
        ("2", {"2"}, []),
    ]
    table = each[0][1].together.set_index("system")
    assert table.loc["bsp", ["paper", "paper_std"]].tolist() == [0.5, 0.1]
    assert table.loc["asp", ["paper", "paper_std"]].isna().all()
    whole = replace(found, spec=msgspec.structs.replace(found.spec, figure=Drawing(kind="bars")))
    assert [level for level, _ in panels(numbers_of_figure(whole), whole)] == [None]


def test_a_restarted_worker_is_told_apart_and_leaves_a_gap(tmp_path: Path) -> None:
    run = restarted(tmp_path / "run")
    frame = over_time(run, bins=40)
    assert roles(run, frame)[1] == RESTARTED
    assert roles(run, frame)[0] == OTHERS
    mine = frame[frame["worker"] == 1]
    away = mine[mine["t"].between(1.6, 1.9)]
    assert len(away)
    assert away["bpt_s"].isna().all()
    assert mine.loc[mine["t"] < 1.4, "bpt_s"].mean() > 3 * mine.loc[mine["t"] > 2.5, "bpt_s"].mean()
    still = over_time(load_run(story().write(tmp_path / "other")), bins=5)
    assert not still["bpt_s"].isna().any()


def test_bins_are_means_and_numbers_have_the_digits_that_matter() -> None:
    rates = pd.DataFrame({"t": [0.1, 0.2, 0.9], "server": [0, 0, 0], "bpt_s": [1.0, 3.0, 5.0]})
    assert bin_rates(rates, 1.0, bins=2)[["t", "bpt_s"]].to_numpy().tolist() == [[0.25, 2.0], [0.75, 5.0]]
    texts = {106240.2: "106240", 999.94: "999.9", 24.06: "24.1", 0.0131: "0.013", 0.0: "0", 0.7: "0.70", 0.997: "1.0"}
    assert {value: number_text(value) for value in texts} == texts


def test_a_level_looks_like_the_strategy_that_it_is() -> None:
    """An experiment may call dynamic shards ``asp``, and static x by its x."""
    like = {"asp": "asp_even", "static_3": "static_x"}
    alone = {name: level_looks([name])[name] for name in ("bsp", "asp_even", "static_x")}
    wanted = {"bsp": alone["bsp"], "asp": alone["asp_even"], "static_3": alone["static_x"]}
    assert level_looks(wanted, like) == bars.bar_looks(wanted, like) == wanted
    # Named by the setting of the level, whatever the level is called; settings of ours remain as they were.
    own = bars.own_strategies({"bsp": ("strategy=bsp",), "mine": ("strategy=hers", "seed=1"), "none": ()})
    assert own == {"mine": "hers"}
    found = bars.bar_looks(["bsp", "mine", "none"], own)
    assert found["mine"] == looks(["hers"])["hers"] != found["none"] == bars.OTHERS
