"""The look of the figures: colours that stay, captions that say where a figure is from, frames that they draw."""

from __future__ import annotations

from itertools import combinations
from math import inf
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from colorspacious import cspace_convert
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from analysis.figures.bars import draw_bars
from analysis.figures.convergence import MOST_LEVELS, draw_convergence, stacked_labels
from analysis.figures.names import NAMES, shown_name
from analysis.figures.page import Form, captioned, drawn_as, new_page, save, styled
from analysis.figures.style import DPI, STRATEGY_COLOURS, colour_of, looks
from analysis.measures.segments import excerpt, segments, shares
from analysis.records.load import load_run
from analysis.records.provenance import caption
from tests.support.records import Story, apply, bsp_story, compute

ROOT = Path(__file__).resolve().parents[3]


def test_looks_tell_strategies_and_their_variants_apart() -> None:
    assert looks(["asp", "bsp"])["bsp"] == looks(["bsp"])["bsp"]
    assert colour_of("ssp bound=3") == colour_of("ssp bound=10") == STRATEGY_COLOURS["ssp"]
    assert colour_of("my_new_method") == "#44AA99", "by its name alone, in every interpreter"
    found = looks(["ssp bound=1", "ssp bound=2", "ssp bound=3"])
    assert len({look.colour for look in found.values()}) == 1
    assert len({look.line for look in found.values()}) == 3
    found = looks(["bsp", "asp", "ssp", "backup_workers", "lb_bsp", "antdt_nd", "dlrover"]).values()
    assert len({look.marker for look in found}) == len({look.hatch for look in found}) == 7


def test_no_two_strategies_look_the_same() -> None:
    assert len(set(STRATEGY_COLOURS.values())) == len(STRATEGY_COLOURS)
    names = [path.stem for path in (ROOT / "conf" / "strategy").glob("*.yaml")]
    assert names
    assert set(STRATEGY_COLOURS) == {*names, "ddp"}, (
        "each has a colour, and none is for what does not exist, or no longer"
    )
    assert len({looks([name])[name] for name in names}) == len(names), "each alone, without a line for its variants"


def test_strategies_stay_apart_whatever_the_eyes() -> None:
    """Those of the same marker and hatch, by their colours as simulated by Machado et al. (2009), in CAM02-UCS."""
    names = list(STRATEGY_COLOURS)
    rgb = np.array([to_rgb(STRATEGY_COLOURS[name]) for name in names])
    seen = {"normal": rgb} | {
        kind: np.clip(cspace_convert(rgb, {"name": "sRGB1+CVD", "cvd_type": kind, "severity": 100}, "sRGB1"), 0, 1)
        for kind in ("deuteranomaly", "protanomaly", "tritanomaly")
    }
    look = looks(names)
    for kind, colours in seen.items():
        places = cspace_convert(colours, "sRGB1", "CAM02-UCS")
        for (i, one), (j, other) in combinations(enumerate(names), 2):
            if (look[one].marker, look[one].hatch) == (look[other].marker, look[other].hatch):
                assert np.linalg.norm(places[i] - places[j]) > 15, (kind, one, other)


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
    with styled(), captioned():  # and from here on one format
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


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        ({"stragglab": "0.1.0", "commit": "1a2b3c4"}, "Stragglab 0.1.0 (1a2b3c4)"),
        ({"stragglab": "0.1.0", "commit": "unknown"}, "Stragglab 0.1.0"),
        ({"stragglab": "0.1.0"}, "Stragglab 0.1.0"),
        ({"stragglab": "unknown", "commit": "1a2b3c4"}, "Stragglab 1a2b3c4"),
        ({}, None),
    ],
)
def test_a_caption_names_the_version_and_a_commit_that_is_known(versions: dict[str, str], text: str | None) -> None:
    last = caption([{**Story().meta, "versions": versions}]).rpartition(" \N{MIDDLE DOT} ")[2]
    assert last == (text or "Test CPU, 2 cores, Linux 6.1")


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


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)


def test_a_miss_is_said_in_the_legend() -> None:
    curves = pd.DataFrame({"label": "bsp", "t_s": [0.0, 1.0], "median": 0.5, "low": 0.4, "high": 0.6, "runs": 3})
    marks = pd.DataFrame(
        {"strategy": ["bsp"], "tta_s": [float("inf")], "tta_step_s": [float("nan")], "missed": [3], "runs": [3]}
    )
    figure = Figure()
    axes = figure.subplots()
    draw_convergence(axes, curves, marks, looks(["bsp"]), "accuracy", 0.9)
    legend = axes.get_legend()
    assert legend.get_texts()[0].get_text() == "BSP\ntarget missed by 3 of 3"
    assert legend.get_frame_on(), "no line of the grid strikes its text out"
    [target] = [text for text in axes.texts if text.get_text() == "target 0.9"]
    assert target.get_bbox_patch() is not None
    assert target.zorder > 5, "above the frame of the zoom"


def test_labels_of_times_are_stacked_where_they_would_overlap_and_shared_where_they_are_equal() -> None:
    found = stacked_labels([1.0, 12.0, 12.04, 13.0, 20.0], 25.0)
    assert [(label.text, label.number, label.level) for label in found] == [
        ("1.0", 1, 0),
        ("12.0", 2, 0),
        ("13.0", 1, 1),
        ("20.0", 1, 0),
    ]
    assert [label.first for label in found] == [0, 1, 3, 4]
    assert [label.level for label in stacked_labels([10 + 0.1 * n for n in range(9)], 25.0)] == list(range(MOST_LEVELS))
    assert stacked_labels([], 25.0) == []


def test_a_bar_says_its_value_and_its_misses() -> None:
    bars = pd.DataFrame({"strategy": ["bsp", "asp"], "value_s": [9.5, float("inf")], "missed": [1, 3], "runs": [3, 3]})
    bars = bars.assign(low_s=9.0, high_s=float("inf"))
    dots = pd.DataFrame({"strategy": ["bsp"] * 3, "value_s": [9.0, 9.5, float("inf")]})
    figure = Figure()
    draw_bars(figure.subplots(), bars, dots, looks(["bsp", "asp"]), "seconds", "missed")
    assert texts(figure) == "9.5 1 of 3 missed 3 of 3\nmissed", "in short lines, where there is no bar"
    assert len(figure.axes[0].patches) == 1, "no bar for a miss"
    low, high = (line for line in figure.axes[0].lines if len(line.get_xdata()) == 1)
    assert (low.get_xdata()[0], low.get_marker()) == (9.0, "|")
    assert (high.get_xdata()[0], high.get_marker()) == (9.5, ">"), "it has no upper end"


@pytest.mark.parametrize(
    ("low_s", "high_s", "ends"),
    [(4.0, 6.0, [("|", 4.0), ("|", 6.0)]), (4.0, inf, [("|", 4.0), (">", 8.0)]), (0.0, inf, []), (-inf, inf, [])],
)
def test_an_interval_that_has_no_upper_end_is_not_drawn_with_one(
    low_s: float, high_s: float, ends: list[tuple[str, float]]
) -> None:
    """Where runs never ended: an arrow to the largest time that is drawn, or nothing if it has no end at all."""
    bars = pd.DataFrame({"strategy": ["bsp", "asp"], "value_s": [5.0, 8.0], "missed": 0, "runs": 6})
    bars = bars.assign(low_s=[low_s, 8.0], high_s=[high_s, 8.0])
    figure = Figure()
    draw_bars(figure.subplots(), bars, pd.DataFrame({"strategy": [], "value_s": []}), looks(["bsp", "asp"]), "s", "-")
    lines = [line for line in figure.axes[0].lines if line.get_marker() in ("|", ">")]
    assert [(line.get_marker(), line.get_xdata()[0]) for line in lines] == ends  # type: ignore[index]


@pytest.mark.painted
def test_drawing_leaves_the_settings_of_others_alone(tmp_path: Path) -> None:
    before = mpl.rcParams["font.size"]
    with styled():
        page = new_page(1.0, "a caption with a $ in it")
        page.subplots().plot([0, 1])
        save(page, tmp_path / "a.png", pd.DataFrame({"x": [0, 1]}))
    assert mpl.rcParams["font.size"] == before
    assert (tmp_path / "a.csv").read_text() == "x\n0\n1\n"


def test_no_figure_needs_pyplot() -> None:
    for path in (ROOT / "analysis").rglob("*.py"):
        assert "pyplot" not in path.read_text(), path


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
