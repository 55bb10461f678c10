"""An experiment as a map of ratios: a panel per level of an axis, a row per level of ``by``, a column per ``along``."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from numpy.typing import NDArray

from analysis.experiments.results import Results
from analysis.experiments.spec import PAIRED
from analysis.figures.names import shown_name, shown_title
from analysis.figures.page import new_page, save, styled
from analysis.figures.style import INK
from analysis.measures.harm import CELL, TOLERATED, Cell, cells_of
from analysis.measures.small_samples import interval, interval_of_times, median

CELL_IN, MARGIN_IN = 0.135, 1.5
"""Height of a row; of all else above and below the panels."""
ALONE_IN, ALONE_MARGIN_IN = 0.24, 1.0
"""The same of a single panel, which has numbers."""
DARK = 1.2
"""Doublings from which on a colour is so dark that its number is white."""
REACH = 2.0
"""Doublings from the middle of the scale to its ends, 1/4 and 4; values beyond have the colour of the end."""
COLOURS: Colormap = LinearSegmentedColormap.from_list("harm", ["#0072B2", "#ffffff", "#D55E00"]).with_extremes(
    bad="#dddddd"
)
"""Blue: less, white: alike, orange: more (Okabe and Ito's, which all eyes tell apart); grey: refused or failed."""


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    spec, drawn, cells = results.spec, results.spec.figure, cells_shown(results)
    counts, alone = list(dict.fromkeys(cell.workers for cell in cells)), len({cell.workers for cell in cells}) == 1
    titles = ["" if drawn.panels is None else shown_title(drawn.panels, str(count), drawn.names) for count in counts]
    rows = [level for level in spec.levels[drawn.by] if any(cell.strategy == level for cell in cells)]
    columns = list(dict.fromkeys(cell.straggler for cell in cells))
    height_in = ALONE_IN * len(rows) + ALONE_MARGIN_IN if alone else CELL_IN * len(rows) + MARGIN_IN
    with styled():
        page = new_page(height_in, ", ".join(filter(None, [titles[0] if alone else "", results.source])))
        panels = page.subplots(1, len(counts), sharey=True, squeeze=False)[0]
        for count, title, axes in zip(counts, titles, panels, strict=True):
            mine = [cell for cell in cells if cell.workers == count]
            draw_map(axes, mine, rows, columns, dots=not alone)
            axes.set_title("" if alone else title)
        panels[0].set_yticks(range(len(rows)), [shown_name(name, drawn.names) for name in rows])
        panels[0].tick_params(axis="y", labelsize=8 if alone else 6.5)
        if alone:
            draw_numbers(panels[0], cells, rows, columns)
            panels[0].set_xlabel(drawn.along_label or drawn.label)
        else:
            scale = ScalarMappable(Normalize(-REACH, REACH), COLOURS)
            bar = page.colorbar(scale, ax=list(panels), location="bottom", shrink=0.5, aspect=40, extend="both")
            bar.set_ticks([-2, -1, 0, 1, 2], labels=["1/4", "1/2", "1", "2", "4"])
            compared = f"{drawn.label} (dots: more than {TOLERATED:g}; grey: refused or failed)"
            bar.set_label(compared if drawn.value == PAIRED else drawn.along_label or drawn.label)
            bar.outline.set_visible(False)
    return save(page, path, _numbers(results))


def _numbers(results: Results) -> pd.DataFrame:
    """A row per cell: ``outcome``, ``seeds``, and median and interval of every measure of the page's table."""
    spec, runs = results.spec, results.runs
    if "outcome" not in runs:
        runs = runs.assign(outcome=np.where(runs["completed"], "done", "cut"))
    axes = [axis for axis in _axes(results) if axis]
    measures = [*(spec.numbers.columns if spec.numbers else [spec.figure.value])]
    rows = []
    for levels, mine in runs[runs[spec.figure.by].isin(spec.levels[spec.figure.by])].groupby(axes, sort=False):
        worst = next((state for state in ("failed", "refused", "cut") if (mine["outcome"] == state).any()), "done")
        row = {**dict(zip(axes, levels, strict=True)), "outcome": worst, "seeds": len(mine)}
        row |= {"setting": mine["setting"].iloc[0]} if "setting" in mine else {}
        for name in measures:
            values = mine[name].dropna().tolist()
            found = (median(values), *(interval_of_times if name == PAIRED else interval)(values))
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), map(_four_digits, found), strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")


def cells_shown(results: Results) -> list[Cell]:
    """The cells of all levels that are shown; a panel is what :class:`Cell` calls workers."""
    drawn = results.spec.figure
    runs = results.runs[results.runs[drawn.by].isin(results.spec.shown_levels)]
    if "outcome" not in runs:
        runs = runs.assign(outcome=np.where(runs["completed"], "done", "cut"))
    places = dict(zip(CELL, (runs.get(axis, axis) for axis in _axes(results)), strict=True))
    return cells_of(runs.assign(jct_ratio=runs[drawn.value] * drawn.scale, note="", **places))


def _axes(results: Results) -> list[str]:
    drawn = results.spec.figure
    return [drawn.panels or "", str(drawn.along), drawn.by]


def draw_map(axes: Axes, cells: Sequence[Cell], rows: list[str], columns: list[str], *, dots: bool = True) -> None:
    """Draw one panel; ``dots``: one marks every cell that is harmed."""
    axes.imshow(
        np.ma.masked_invalid(doublings(cells, rows, columns)), cmap=COLOURS, vmin=-REACH, vmax=REACH, aspect="auto"
    )
    harmed = [(columns.index(c.straggler), rows.index(c.strategy)) for c in cells if c.is_harmful]
    if dots and harmed:
        axes.plot(*zip(*harmed, strict=True), ".", color="black", markersize=2.2)
    axes.set_xticks(range(len(columns)), [name.replace("_", " ") for name in columns], rotation=90, fontsize=6.5)
    axes.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    axes.grid(visible=True, which="minor", color="white", linewidth=0.8)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)


def draw_numbers(axes: Axes, cells: Sequence[Cell], rows: list[str], columns: list[str]) -> None:
    """The number of every cell on it, and the columns' names above."""
    for cell in cells:
        if cell.ratio >= 0.0:
            ink = "white" if abs(_log2(cell.ratio)) > DARK else INK
            place = columns.index(cell.straggler), rows.index(cell.strategy)
            axes.text(*place, f"{cell.ratio:.2f}", ha="center", va="center", fontsize=7, color=ink)
    axes.set_xticks(range(len(columns)), [name.replace("_", "\n") for name in columns], rotation=45, fontsize=7)
    axes.xaxis.tick_top()


def doublings(cells: Sequence[Cell], rows: list[str], columns: list[str]) -> NDArray[np.float64]:
    """log2 of the ratios, float [rows, columns]; NaN where there is none."""
    found = np.full((len(rows), len(columns)), np.nan)
    for cell in cells:
        if cell.ratio >= 0.0:
            found[rows.index(cell.strategy), columns.index(cell.straggler)] = _log2(cell.ratio)
    return found


def _log2(ratio: float) -> float:
    """The lower end of the scale for nothing at all."""
    return log2(ratio) if ratio > 0.0 else -REACH
