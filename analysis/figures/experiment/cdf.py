"""An experiment as cumulative distributions: a panel each, a colour per level of an axis, the paper's points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.experiments.plotted import caption_of
from analysis.experiments.results import Results
from analysis.experiments.spec import Shown
from analysis.figures.names import shown_name
from analysis.figures.page import legend_above, new_grid, save, styled
from analysis.figures.style import INK, LINES, PAPER_COLOUR, Look, level_looks

NOTE = "lines: all seeds together"
MARKERS = ("D", "s", "^", "o")
"""Markers of the paper's points, one for each group."""
MARK: dict[str, Any] = {
    **{"linestyle": "none", "markersize": 4.5, "markerfacecolor": "white", "markeredgewidth": 1.2},
    **{"clip_on": False, "zorder": 4},
}


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    drawn = results.spec.figure
    tables = [distribution(results, one) for one in drawn.several]
    look = level_looks(results.spec.shown_levels, drawn.looks)
    if all(table["group"].nunique() == 1 for table in tables):  # else line styles are the groups'
        look = {name: replace(each, line=LINES[place % len(LINES)]) for place, (name, each) in enumerate(look.items())}
    with styled():
        page, places = new_grid(1.9, caption_of(results, NOTE), len(tables))
        for axes, one, table in zip(places, drawn.several, tables, strict=True):
            draw_steps(axes, table.rename(columns={drawn.by: "by"}), look, one)
            name_groups(axes, table, one)
        keys: list[Artist] = [
            Line2D([], [], color=each.colour, ls=each.line, label=shown_name(level, drawn.names))
            for level, each in look.items()
        ]
        if any(one.marks for one in drawn.several):
            keys.append(Line2D([], [], color=PAPER_COLOUR, marker="D", label="paper", **MARK))
        legend_above(page, keys)
    shown = [table.assign(measure=one.measure) for one, table in zip(drawn.several, tables, strict=True)]
    return save(page, path, pd.concat(shown, ignore_index=True))


def distribution(results: Results, one: Shown) -> pd.DataFrame:
    """The level of ``figure.by``, ``group``, ``value`` (plotted unit), ``count``, and ``percent`` that are not above.

    Of the samples of a set of jobs if it has any of that name, else of the runs. Unknown values (NaN) are left out.
    """
    by, there = results.spec.figure.by, results.samples
    mine = there[there["measure"] == one.measure]
    if mine.empty:
        mine = results.runs[[by]].assign(group="", value=results.runs[one.measure].astype("float64"), count=1)
    mine = mine[mine[by].isin(results.spec.shown_levels) & mine["value"].notna()]
    found = mine.groupby([by, "group", "value"], as_index=False)["count"].sum()
    found["value"] = found["value"].astype("float64") * one.scale
    parts = found.groupby([by, "group"])["count"]
    return found.assign(percent=100.0 * parts.cumsum() / parts.transform("sum"))


def draw_steps(axes: Axes, table: pd.DataFrame, looks: dict[str, Look], one: Shown) -> None:
    """Draw one panel: a line per ``by`` (colour) and ``group`` (style), and the points of ``one.marks``."""
    groups = groups_of(table, one)
    start, end = ends_of(table, one)
    if one.log:
        axes.set_xscale("log")
    for name, look in looks.items():
        for group in groups:
            rows = table[(table["by"] == name) & (table["group"] == group)]
            if len(rows):
                x = [start, *rows["value"].clip(start, end), end]
                y = [0.0, *rows["percent"].where(rows["value"] <= end).ffill().fillna(0.0)]
                style = LINES[groups.index(group) % len(LINES)] if len(groups) > 1 else look.line
                axes.step(x, [*y, y[-1]], where="post", color=look.colour, linestyle=style, linewidth=1.2)
    for key, points in one.marks.items():
        colour = looks[key].colour if key in looks else PAPER_COLOUR
        xs, percents = zip(*points, strict=True)
        axes.plot(xs, percents, color=colour, marker=marker_of(key, groups), **MARK)
    axes.set_xlim(start, end)
    axes.set_ylim(0.0, 100.0)
    axes.set_title(one.title)
    axes.set_xlabel(one.label)
    axes.set_ylabel(f"{one.share} (%)")
    axes.grid(visible=True, axis="both")


def ends_of(table: pd.DataFrame, one: Shown) -> tuple[float, float]:
    """Both ends of the axis: all finite values, and from 0 if it is not logarithmic and none is below."""
    if one.ends is not None:
        return one.ends
    points = [x for points in one.marks.values() for x, _ in points]
    values = np.array([*table["value"], *points], dtype="float64")
    seen = values[np.isfinite(values) & ((values > 0.0) | (not one.log))]
    if not len(seen):
        return (0.1, 1.0) if one.log else (0.0, 1.0)
    low, high = float(seen.min()), float(seen.max())
    low = low if one.log else min(0.0, low)
    return low, high if high > low else low + 1.0


def groups_of(table: pd.DataFrame, one: Shown) -> list[str]:
    """The groups that are there, those with names first, in their order."""
    there = list(dict.fromkeys(table["group"]))
    return [*(name for name in one.groups if name in there), *(name for name in there if name not in one.groups)]


def marker_of(key: str, groups: Sequence[str]) -> str:
    """The marker of the paper's points of a group, or of a level."""
    return MARKERS[groups.index(key) % len(MARKERS)] if key in groups else MARKERS[0]


def name_groups(axes: Axes, table: pd.DataFrame, one: Shown) -> None:
    """A small legend of the line styles, where there are several."""
    groups = groups_of(table, one)
    if len(groups) > 1:
        keys = [
            Line2D(
                *([], []),
                color=INK,
                ls=LINES[place % len(LINES)],
                linewidth=1.0,
                label=one.groups.get(name, name),
                marker=marker_of(name, groups) if name in one.marks else None,
                markersize=3.5,
                markeredgecolor=PAPER_COLOUR,
                markerfacecolor="white",
            )
            for place, name in enumerate(groups)
        ]
        axes.legend(handles=keys, fontsize=6, loc="best", handlelength=2.0, borderaxespad=0.2, labelspacing=0.2)
