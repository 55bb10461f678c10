"""An experiment as lines over a delay; non-numeric levels (a fault: endless delay) are separate points."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.experiments.plotted import caption_of, numbers_of_figure
from analysis.experiments.results import Results
from analysis.figures.experiment.lines import MARKER, draw_lines
from analysis.figures.names import shown_name
from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import Look, level_looks

ARROW = "arrow: never ends"
NOTE = f"lines: median over the seeds, bars: 95 % interval (Student's t), {ARROW}"
NESTED = 1.6
"""Flat lines may coincide: each line's markers are this much smaller than the previous line's, in points."""
APART_FRAC = 0.3
"""Distance from the longest delay to the first separate point, and between those, as a fraction of the axis."""


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    drawn, whole = results.spec.figure, numbers_of_figure(results)
    levels = whole.ours[str(drawn.along)]
    placed = whole.ours.assign(by=whole.ours[drawn.by], level=levels, x=places(levels))
    look = distinguish(level_looks(results.spec.shown_levels, drawn.looks))
    with styled():
        page = new_page(2.7, caption_of(results, NOTE, ARROW))
        axes = page.subplots()
        draw_delays(axes, placed, look)
        axes.set_xlabel(drawn.along_label or str(drawn.along))
        axes.set_ylabel(drawn.label)
        keys = [
            Line2D(
                *([], []),
                color=each.colour,
                ls=each.line,
                marker=each.marker,
                markersize=MARKER,
                label=shown_name(name, drawn.names),
            )
            for name, each in look.items()
        ]
        legend_above(page, keys)
    return save(page, path, whole.together)


def distinguish(looks: dict[str, Look]) -> dict[str, Look]:
    """Make the last look dashed, since flat lines may coincide."""
    *_, last = looks
    return {name: replace(look, line="--" if name == last else look.line) for name, look in looks.items()}


def places(levels: pd.Series) -> pd.Series:
    """X positions: numeric levels at their value, other levels to the right of them in order."""
    x = pd.to_numeric(levels, errors="coerce")
    longest, apart = x.max(), list(dict.fromkeys(levels[x.isna()]))
    return x.fillna(levels.map({level: longest * (1 + APART_FRAC * (i + 1)) for i, level in enumerate(apart)}))


def draw_delays(axes: Axes, table: pd.DataFrame, looks: dict[str, Look]) -> None:
    """Draw ``by``, ``level``, ``x`` (:func:`places`), ``value``, ``low``, ``high``; an arrow marks infinity."""
    named = table.drop_duplicates("level").sort_values("x", kind="stable")
    numbers = pd.to_numeric(named["level"], errors="coerce").notna()
    longest = float(named.loc[numbers, "x"].max())
    finite = table[np.isfinite(table["value"])].sort_values("x", kind="stable")
    top = 1.12 * float(finite["value"].max())
    nothing = pd.DataFrame(columns=["by", "x", "value", "std"])
    for x in (None, *named.loc[~numbers, "x"]):
        draw_lines(axes, finite[finite["x"] <= longest if x is None else finite["x"] == x], nothing, looks, NESTED)
    for name, look in looks.items():
        mine = table[table["by"] == name].sort_values("x", kind="stable").set_index("x")["value"].clip(upper=top)
        apart = mine[mine.index >= longest]
        axes.plot(apart.index, apart, color=look.colour, linestyle=":", linewidth=0.9)
        never = apart[apart == top]
        if len(never):  # not clipped: an empty line would extend the layout to the figure's corner
            axes.plot(never.index, never, color=look.colour, linestyle="none", marker="^", markersize=6, clip_on=False)
    axes.set_ylim(0.0, top)
    axes.set_xticks(named["x"], named["level"])
    axes.grid(visible=True, axis="y")
