"""An experiment as ratios to the best fixed system of every cell: a row per cell, a mark per system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.experiments.best_fixed import against_best, counts
from analysis.experiments.results import Results
from analysis.figures.names import NO_NAMES, shown_name
from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import FAINT, INK, Look, level_looks

NOTE = (
    "1: the fixed mode with the least median in the cell; marks: median of the ratios by seed, lines: their 95 % "
    "interval; grey: 5 % later; at the right edge: over 4 times, or never"
)
TOLERANCE = 1.05
MOST = 4.0
"""The right end of the axis; later times, and infinite ones, are drawn there."""
LEAST = 0.1
"""The farthest left end, if a line reaches as far."""
ROW_IN = 0.21


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    drawn, table = results.spec.figure, against_best(results)
    cells = [axis for axis in results.spec.compared_axes if axis != drawn.by]
    names = [
        ", ".join(drawn.names.get(str(level), str(level)) for level in levels) for levels in table[cells].to_numpy()
    ]
    table = table.assign(cell=names)
    look = level_looks(results.spec.shown_levels, drawn.looks)
    sums = "; ".join(
        f"{name}: at most 5 % later in {row.within} of {row.cells} cells, sooner in {row.sooner}, later in {row.later}"
        for name, row in counts(table, drawn.by, TOLERANCE - 1).iterrows()
    )
    with styled():
        page = new_page(
            1.0 + ROW_IN * table["cell"].nunique(),
            f"{NOTE} \N{MIDDLE DOT} {sums} \N{MIDDLE DOT} {results.source}",
        )
        draw_ratios(page.subplots(), table, drawn.by, look, drawn.names)
        page.axes[0].set_xlabel(drawn.label)
        keys = [_key(shown_name(name, drawn.names), each, name in drawn.fixed) for name, each in look.items()]
        legend_above(page, keys)
    return save(page, path, table.drop(columns="cell"))


def draw_ratios(
    axes: Axes, table: pd.DataFrame, by: str, looks: dict[str, Look], names: Mapping[str, str] = NO_NAMES
) -> None:
    """One row per ``cell``, the first on top; hollow marks: fixed systems, full ones with a line: those that choose."""
    lanes = list(dict.fromkeys(table["cell"]))
    axes.axvspan(1.0, TOLERANCE, color="#eeeeee", linewidth=0)
    axes.axvline(1.0, color=FAINT, linewidth=0.8)
    choosing = [name for name in looks if not table.loc[table[by] == name, "fixed"].any()]
    for row in table.itertuples():
        name = str(getattr(row, by))
        if name not in looks:
            continue
        y = float(lanes.index(row.cell))
        place = min(row.ratio, MOST) if not np.isnan(row.ratio) else MOST
        if row.fixed:
            axes.plot(place, y, "o", color="white", markeredgecolor=looks[name].colour, markersize=4, zorder=3)
            continue
        y += 0.3 * (choosing.index(name) - (len(choosing) - 1) / 2) / max(1, len(choosing) - 1) if choosing[1:] else 0.0
        if np.isfinite([row.low, row.high]).all():
            axes.plot([row.low, min(row.high, MOST)], [y, y], color=looks[name].colour, linewidth=1.3, zorder=4)
        axes.plot(place, y, "D", color=looks[name].colour, markersize=4.5, zorder=5)
    for y, lane in enumerate(lanes):
        best = table.loc[table["cell"] == lane].iloc[0]
        axes.text(1.01, y, f"{shown_name(str(best['best']), names)} {best['best_value']:.3g} s", **_beside(axes))
    axes.set_xscale("log")
    lines = table[~table["fixed"] & (table["low"] > -np.inf) & (table["high"] < np.inf)]
    least = 0.95 * float(pd.concat([table["ratio"], lines["low"]]).min())
    axes.set_xlim(max(LEAST, min(0.7, least)), MOST * 1.04)
    ticks = [tick for tick in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, MOST) if tick >= axes.get_xlim()[0]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="y")


def _beside(axes: Axes) -> dict[str, Any]:
    return {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 6.5, "color": INK}


def _key(name: str, look: Look, fixed: bool) -> Line2D:
    if fixed:
        return Line2D([], [], linestyle="none", marker="o", color="white", markeredgecolor=look.colour, label=name)
    return Line2D([], [], marker="D", color=look.colour, markersize=4.5, label=name)
