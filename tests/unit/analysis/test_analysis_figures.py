"""The look of the figures: colours that stay, captions that say where a figure is from, frames that they draw."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from colorspacious import cspace_convert
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from analysis.figures.convergence import NARROW_IN, draw_convergence, stacked_labels
from analysis.figures.names import GROUPS, NAMES, shown_case, shown_name, use_names
from analysis.figures.page import Form, draw_captions, drawn_as, new_page, save, styled
from analysis.figures.single import draw_run
from analysis.figures.style import DPI, STRATEGY_COLOURS, colour_of, looks
from analysis.figures.time_axis import time_axis
from analysis.figures.zoom import BAND_FRAC, late_window
from analysis.measures import lanes
from analysis.measures.lanes import MOST, caption_of, lane_heights
from analysis.measures.segments import excerpt, segments, shares
from analysis.records.load import load_run
from analysis.records.provenance import caption
from runtime.house import ROOT
from tests.support.records import Story, apply, bsp_story, compute


def test_no_two_strategies_look_the_same_and_variants_have_lines_of_their_own() -> None:
    assert len(set(STRATEGY_COLOURS.values())) == len(STRATEGY_COLOURS)
    names = [path.stem for path in (ROOT / "conf" / "strategy").glob("*.yaml")]
    assert set(STRATEGY_COLOURS) == {*names, "ddp"}, "each has a colour, and none is for what does not exist"
    assert len({looks([name])[name] for name in names}) == len(names), "each alone, without a line for its variants"
    assert looks(["asp", "bsp"])["bsp"] == looks(["bsp"])["bsp"]
    found = looks(["ssp bound=1", "ssp bound=2", "ssp bound=3"])
    assert {look.colour for look in found.values()} == {STRATEGY_COLOURS["ssp"]}
    assert len({look.line for look in found.values()}) == 3
    assert colour_of("my_new_method") == "#44AA99", "by its name alone, in every interpreter"


def test_strategies_stay_apart_whatever_the_eyes() -> None:
    """Those of the same marker and hatch, by their colours as simulated by Machado et al. (2009), in CAM02-UCS."""
    names = list(STRATEGY_COLOURS)
    rgb = np.array([to_rgb(STRATEGY_COLOURS[name]) for name in names])
    seen, look = [rgb], looks(names)
    for kind in ("deuteranomaly", "protanomaly", "tritanomaly"):
        space = {"name": "sRGB1+CVD", "cvd_type": kind, "severity": 100}
        seen.append(np.clip(cspace_convert(rgb, space, "sRGB1"), 0, 1))
    for colours in seen:
        places = cspace_convert(colours, "sRGB1", "CAM02-UCS")
        for (i, one), (j, other) in combinations(enumerate(names), 2):
            if (look[one].marker, look[one].hatch) == (look[other].marker, look[other].hatch):
                assert np.linalg.norm(places[i] - places[j]) > 15, (one, other)


def test_every_strategy_has_a_name_for_people() -> None:
    choices = {path.stem for path in (ROOT / "conf" / "strategy").glob("*.yaml")}
    assert {*choices, "ddp"} == set(NAMES)
    assert len(set(NAMES.values())) == len(NAMES)
    assert shown_name("ssp bound=3") == "SSP (bound=3)"
    assert shown_name("my_own x=1") == "my_own (x=1)"
    assert shown_name("my_own x=1", {"my_own": "Mine"}) == "Mine (x=1)"
    assert [shown_name(level, {"bsp": "SSGD", "n": "/N"}) for level in ("bsp", "n", "asp")] == ["SSGD", "/N", "ASP"]


@pytest.mark.painted
def test_a_figure_for_a_paper_says_where_it_is_from_in_its_metadata(tmp_path: Path) -> None:
    shown = pd.DataFrame({"a": [1]})
    with styled(), drawn_as(Form(3.33, ("png", "pdf", "svg"))):
        page = new_page(2.0, "live runtime, seed 7")
        page.subplots().plot([0, 1], label="x")
        save(page, tmp_path / "figure.png", shown)
    with Image.open(tmp_path / "figure.png") as picture:
        assert picture.info["Description"] == "live runtime, seed 7"
        assert picture.size[0] == int(3.33 * DPI)
        height = picture.size[1]
    assert height == 2.0 * DPI, "a caption takes no space"
    assert b"live runtime, seed 7" in (tmp_path / "figure.pdf").read_bytes()
    assert b"live runtime, seed 7" in (tmp_path / "figure.svg").read_bytes()
    assert (tmp_path / "figure.txt").read_text() == "live runtime, seed 7\n"
    assert (tmp_path / "figure.csv").exists()
    with styled(), draw_captions():  # and from here on one format
        save(new_page(2.0, "of a page"), tmp_path / "other.png", shown)
    assert not (tmp_path / "other.pdf").exists()
    with Image.open(tmp_path / "other.png") as picture:
        assert picture.size[1] > 2.0 * DPI


def test_a_caption_says_where_a_figure_is_from() -> None:
    virtual = Story(runtime="virtual", seed=2).meta
    said = caption([Story(seed=0).meta, Story(seed=1).meta, virtual])
    for part in ("live runtime", "virtual runtime (calibration cal-7)", "seeds 0\N{EN DASH}2", "Test CPU, 2 cores"):
        assert part in said
    assert "seed 2" in caption([virtual])
    assert "fitted" not in said
    fitted = [{**virtual, "fitted": [name]} for name in ("resources aaaa0000", "resources bbbb1111")]
    assert "fitted: resources aaaa0000, resources bbbb1111" in caption(fitted)


def test_segments_sum_to_the_workers_time_and_shares_of_a_bin_to_one(tmp_path: Path) -> None:
    run = load_run(bsp_story().write(tmp_path / "run"))
    pieces = segments(run.tables.iterations)
    spent = (pieces["end_s"] - pieces["start_s"]).groupby(pieces["worker"]).sum()
    assert spent.tolist() == pytest.approx([0.645, 0.646, 0.647, 0.648], abs=1e-6)
    injected = pieces[pieces["phase"] == "injected"]
    assert (injected["end_s"] - injected["start_s"]).tolist() == pytest.approx([0.1, 0.1])
    binned = shares(pieces, 0.64, 8)
    assert len(binned["start_s"].unique()) == 8
    assert binned.groupby(["worker", "start_s"])["share"].sum().to_numpy() == pytest.approx(1.0)
    start, end = excerpt(run.tables.iterations, run.plan, 0.648, count=4)
    assert 0.0 <= start < 0.113 < end <= 0.648


def test_a_segment_does_not_begin_before_the_last_arrival(tmp_path: Path) -> None:
    """A worker's clock says that it waited for 0.4 s, of which 0.1 s lie before its last gradient arrived."""
    story = Story(num_workers=1)
    story.started()
    story.lines[-1]["commands"] = [compute(0)]
    story.arrived(1.0, 0, 0, [apply(0), compute(0)], compute_s=1.0)
    story.arrived(1.5, 0, 1, [apply(1)], compute_s=0.2, wait_s=0.4, iteration=1)
    pieces = segments(load_run(story.write(tmp_path / "run")).tables.iterations)
    assert pieces[pieces["iteration"] == 1]["start_s"].min() == 1.0
    assert pieces["end_s"].max() == 1.5


def test_labels_of_times_are_stacked_where_they_would_overlap_and_shared_where_they_are_equal() -> None:
    found = stacked_labels([1.0, 12.0, 12.04, 13.0, 20.0], 25.0)
    shown = [("1.0", 1, 0, 0), ("12.0", 2, 0, 1), ("13.0", 1, 1, 3), ("20.0", 1, 0, 4)]
    assert [(label.text, label.number, label.level, label.first) for label in found] == shown


NO_GROUPS = {"experiment", "hydra"}
"""Folders of conf/ whose files nobody chooses for a run."""


def test_the_groups_are_those_of_the_configuration() -> None:
    assert {folder.name for folder in (ROOT / "conf").iterdir() if folder.is_dir()} - NO_GROUPS == GROUPS


def test_a_choice_has_the_name_of_its_value_and_all_else_of_the_whole() -> None:
    names = {"rack": "one rack", "4": "a level", "num_workers=4": "four workers"}
    cases = {
        "straggler=rack, workload=digits": "one rack, workload=digits",
        "lr=4, num_workers=4": "lr=4, four workers",
    }
    for case, said in {**cases, "lr=rack": "lr=rack", "targets=[rack, 4]": "targets=[rack, 4]", "": ""}.items():
        assert shown_case(case, names) == said
        with use_names(names):
            assert shown_case(case) == said


def axes_to(low: float, high: float, width_in: float = 6.4) -> Axes:
    axes = Figure(figsize=(width_in, 2.3), dpi=100).subplots()
    axes.set_xlim(low, high)
    return axes


def ticks(axes: Axes) -> list[str]:
    """The texts within the limits."""
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    low, high = axes.get_xlim()
    return [
        text.get_text()
        for place, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if low <= place <= high
    ]


def test_the_unit_suits_the_range() -> None:
    cases = [(0.5, "s", ["0.0", "0.5"]), (1500.0, "s", ["0", "1000"]), (7200.0, "min", ["0", "60", "120"])]
    for high_s, unit, some in (*cases, (86400.0, "h", ["0", "6", "12", "18", "24"]), (4.1e6, "d", ["0", "20", "40"])):
        axes = axes_to(0.0, high_s)
        time_axis(axes.xaxis, "time", "!")
        assert axes.get_xlabel() == f"time ({unit})!"
        assert set(some) <= set(ticks(axes)), ticks(axes)


def iterations(means: dict[int, float]) -> pd.DataFrame:
    """Two iterations of every worker with this mean."""
    rows = [(worker, mean_s + off_s, 1) for worker, mean_s in means.items() for off_s in (-0.5, 0.5)]
    return pd.DataFrame(rows, columns=["worker", "iter_s", "samples"])


def test_of_many_the_slowest_and_others_evenly_spaced() -> None:
    slow = set(range(100, 100 + 7 * (MOST // 2), 7))
    found = lane_heights(range(1000), iterations({worker: 3.0 if worker in slow else 1.0 for worker in range(999)}))
    assert slow < found.keys()
    assert list(found.values()) == [float(place) for place in range(MOST)]
    assert list(found) == sorted(found)
    others = pd.Series(sorted(found.keys() - slow))
    assert others.diff().dropna().between(60, 75).all(), "1,000 / 16, with slow ones between"
    assert caption_of(len(found), 1000).startswith(f"{MOST} of 1000 workers: the {MOST // 2} with")
    workers = [0, 1, 5, *range(7, MOST + 4)]  # few keep their numbers as heights
    assert lane_heights(workers, iterations(dict.fromkeys(workers, 1.0))) == {
        worker: float(worker) for worker in workers
    }
    assert caption_of(len(workers), len(workers)) == ""


def test_the_figures_draw_no_more_lanes_than_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load_run(bsp_story().write(tmp_path / "run"))
    monkeypatch.setattr(lanes, "MOST", 2)
    slowest = int(run.tables.iterations.groupby("worker")["iter_s"].mean().idxmax())
    draw_run(run, tmp_path / "few")
    for name in ("timeline", "bpt"):
        shown = set(pd.read_csv(tmp_path / "few" / f"{name}.csv")["worker"])
        assert len(shown) == 2
        assert slowest in shown


T_S = np.linspace(0.0, 100.0, 201)


def saturating(label: str, end: float, after_s: float, until_s: float = 100.0) -> pd.DataFrame:
    """A metric that reaches ``end`` with the time constant ``after_s``."""
    times = T_S[until_s >= T_S]
    values = end * (1 - np.exp(-times / after_s))
    return pd.DataFrame({"t_s": times, "median": values, "low": values, "high": values, "label": label, "runs": 1})


def both(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([one, other], ignore_index=True)


def test_the_window_begins_where_all_curves_are_in_the_band() -> None:
    window = late_window(both(saturating("bsp", 0.95, 5.0), saturating("asp", 0.94, 8.0)))
    # asp is the later one: 0.95 - 0.94 (1 - exp(-t / 8)) = a fifth of 0.95
    expected_s = 8.0 * np.log(0.94 / (BAND_FRAC * 0.95 - 0.01))
    assert window.start_s == pytest.approx(expected_s, abs=1.0)
    assert window.end_s == 100.0
    assert window.low < 0.8 * 0.95 + 0.02
    assert 0.95 < window.high < 1.0


@pytest.mark.parametrize(
    ("curves", "why"),
    [
        (saturating("bsp", 0.95, 5.0), "one curve"),
        (both(saturating("bsp", 0.95, 5.0), saturating("asp", 0.3, 5.0)), "they end far from each other"),
        (both(saturating("bsp", 0.95, 900.0), saturating("asp", 0.94, 900.0)), "they rise to the end"),
        (both(saturating("bsp", 0.95, 0.01), saturating("asp", 0.95, 0.01)), "they are the same from the start"),
        (both(saturating("bsp", 0.95, 5.0), saturating("asp", 0.6, 5.0, until_s=30.0)), "a job that ended counts"),
    ],
)
def test_nothing_is_drawn_twice_if_it_shows_nothing_more(curves: pd.DataFrame, why: str) -> None:
    assert late_window(curves) is None, why


@pytest.mark.parametrize(("sign", "corner"), [(1.0, "lower"), (-1.0, "upper")])
def test_the_piece_is_drawn_where_the_curves_leave_room(sign: float, corner: str) -> None:
    curves = both(saturating("bsp", 0.95, 5.0), saturating("asp", 0.94, 8.0))
    curves[["median", "low", "high"]] *= sign
    marks = pd.DataFrame({"strategy": ["bsp", "asp"], "tta_s": [float("nan")] * 2, "missed": 0, "runs": 1})
    wide, narrow = Figure(figsize=(NARROW_IN + 2, 3.0)).subplots(), Figure(figsize=(NARROW_IN - 1, 3.0)).subplots()
    for axes in (wide, narrow):
        draw_convergence(axes, curves, marks, looks(["bsp", "asp"]), "accuracy", None)
    assert len(narrow.child_axes) == 0, "a narrow picture has no room"
    (inset,) = wide.child_axes
    assert len(inset.lines) == 2
    wide.figure.draw_without_rendering()  # type: ignore[union-attr]
    place = wide.transAxes.inverted().transform(inset.get_window_extent())
    assert ((place[0, 1] + place[1, 1]) / 2 < 0.5) == (corner == "lower")
