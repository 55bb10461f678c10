"""An experiment as points with their ranges: a row per level of an axis, a panel per measure, the paper's marks."""

from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.experiments.plotted import Plotted, caption_of, numbers_of_figure
from analysis.experiments.results import Results
from analysis.experiments.spec import Drawing, Shown
from analysis.figures.bars import FAR, limit_of
from analysis.figures.experiment.bars import bar_looks, draw_paper, missing_word, paper_keys
from analysis.figures.names import shown_name
from analysis.figures.page import new_grid, save, styled
from analysis.figures.style import INK, Look

NOTE = "points: median over the seeds, thick lines: 95 % interval (Student's t)"
OVER_JOBS = "thin lines: 1st to 99th percentile over the jobs of all seeds"
PERCENTILES = (0.01, 0.99)
ROOM_FRAC = 0.06
"""Room at either end of an axis, as a fraction of its length."""


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    drawn = results.spec.figure
    each = [(one, numbers_of_figure(results, one)) for one in drawn.several]
    tables = [with_percentiles(mine.ours, results, one) for one, mine in each]
    look = bar_looks(results.spec.shown_levels, drawn.looks)
    note = f"{NOTE}; {OVER_JOBS}" if any(table["jobs"].any() for table in tables) else NOTE
    single = OVER_JOBS if "jobs" in note else ""
    with styled():
        height_in = 0.62 + 0.2 * int(tables[0][drawn.by].nunique())
        page, places = new_grid(height_in, caption_of(results, note, single), len(each))
        for axes, (one, mine), table in zip(places, each, tables, strict=True):
            names = {drawn.by: "strategy"}
            draw_dots(axes, table.rename(columns=names), mine.paper.rename(columns=names), look, one)
            rows = list(table[drawn.by])
            axes.set_yticks(range(len(rows)), [shown_name(level, drawn.names) for level in rows])
            place = axes.get_subplotspec()
            axes.tick_params(axis="y", labelleft=place is None or place.is_first_col())
            axes.set_title(one.title)
        marks = pd.concat([mine.paper for _, mine in each])
        if len(marks):
            page.legend(handles=paper_keys(marks, drawn), loc="outside upper right", ncols=2)
    return save(page, path, together(each, tables, drawn))


def with_percentiles(table: pd.DataFrame, results: Results, one: Shown) -> pd.DataFrame:
    """Add ``least`` and ``most`` (percentiles over ``jobs``, the number of values), NaN where jobs are not known."""
    axes, rows = results.spec.compared_axes, []
    there = results.samples[results.samples["measure"] == one.measure]
    for cell in table[axes].itertuples(index=False, name=None):
        mine = there[(there[axes] == list(cell)).all(axis="columns")] if len(there) else there
        values = np.repeat(mine["value"].to_numpy("float64"), mine["count"].to_numpy("int64")) * one.scale
        ends = np.quantile(values, PERCENTILES, method="inverted_cdf") if len(values) else (np.nan, np.nan)
        rows.append({"least": ends[0], "most": ends[1], "jobs": len(values)})
    return pd.concat([table.reset_index(drop=True), pd.DataFrame(rows)], axis="columns")


def draw_dots(axes: Axes, table: pd.DataFrame, paper: pd.DataFrame, looks: dict[str, Look], one: Shown) -> None:
    """Draw one panel, the first row on top.

    Args:
        axes: where to draw.
        table: ``strategy``, ``value`` (median; infinite: an arrow), ``low``, ``high``, ``least``, ``most``, ``missed``,
            ``runs``.
        paper: ``strategy``, ``value``, ``std``, ``how``.
        looks: the look of every strategy.
        one: what is drawn.
    """
    start, end = ends_of(table, paper, one)
    if one.log:
        axes.set_xscale("log")
    axes.set_xlim(start, end)
    for y, row in enumerate(table.itertuples()):
        look = looks[row.strategy]
        for low, high, width in ((row.least, row.most, 0.8), (row.low, row.high, 2.6)):
            if not np.isnan([low, high]).any() and np.isfinite(low):
                axes.plot([low, min(high, end)], [y, y], color=look.colour, linewidth=width, solid_capstyle="butt")
                if high > end:
                    axes.plot(end, y, ">", color=look.colour, markersize=3.5, clip_on=False)
        if row.value <= end:
            axes.plot(
                row.value, y, look.marker or "o", color=look.colour, markersize=5.5, markeredgecolor="white", mew=0.4
            )
        elif row.value > end:  # NaN is neither
            axes.plot(end, y, ">", color=look.colour, markersize=6, clip_on=False)
        axes.text(1.04, y, text_of(row, one), transform=axes.get_yaxis_transform(), va="center", fontsize=7, color=INK)
    draw_paper(axes, paper, list(table["strategy"]), 0.8)
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(one.label)
    axes.grid(visible=True, axis="both")


def text_of(row: object, one: Shown) -> str:
    """The median, and how many runs have none."""
    value, missed, runs = (getattr(row, name) for name in ("value", "missed", "runs"))
    if np.isnan(value):
        return "not measured"
    gone = f"{missed} of {runs} {missing_word(one.measure)}" if missed else ""
    return f"{value:.4g}\n{gone}".strip() if np.isfinite(value) else gone


def ends_of(table: pd.DataFrame, paper: pd.DataFrame, one: Shown) -> tuple[float, float]:
    """Both ends of the axis: all points and ranges, but for values far beyond the others (arrows at the end)."""
    if one.ends is not None:
        return one.ends
    limit = inf if one.log else limit_of(table["value"])
    near = table[table["value"] <= limit]
    marks = paper[paper["strategy"].isin(list(table["strategy"]))]
    drawn = [near[name] for name in ("value", "low", "high", "least", "most")]
    values = pd.concat([*drawn, marks["value"] - marks["std"], marks["value"] + marks["std"]]).to_numpy("float64")
    most = np.inf if one.log else 2 * FAR * float(near["value"].max()) if len(near) else np.inf
    seen = values[np.isfinite(values) & (values <= most) & ((values > 0.0) | (not one.log))]
    if not len(seen):
        return (0.1, 1.0) if one.log else (0.0, 1.0)
    if one.log:
        return float(seen.min()) / 1.5, float(seen.max()) * 1.5
    room = ROOM_FRAC * float(np.ptp(seen)) or 0.5
    return float(seen.min()) - room, float(seen.max()) + room


def together(each: list[tuple[Shown, Plotted]], tables: list[pd.DataFrame], drawn: Drawing) -> pd.DataFrame:
    """For the CSV: a row per measure and level."""
    frames = [
        Plotted(table, mine.paper, mine.compared).together.assign(measure=one.measure)
        for (one, mine), table in zip(each, tables, strict=True)
    ]
    found = pd.concat(frames, ignore_index=True)
    return found[["measure", drawn.by, *(name for name in found if name not in ("measure", drawn.by))]]
