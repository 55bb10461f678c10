"""An experiment as lines over a delay, with a fault, the endless delay, as the last point and apart from the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.claims.shapes import FAULT
from analysis.experiments.results import Results, paper_values, summary
from analysis.figures.experiment_bars import beside
from analysis.figures.experiment_lines import draw_lines
from analysis.figures.page import new_page, save, styled
from analysis.provenance import caption
from analysis.style import Look, level_looks

NOTE = "lines: median over the seeds, bars: 95 % bootstrap interval, arrow: never ends"
APART = 1.35
"""Where the fault is, in lengths of the axis up to the longest delay."""


def draw(path: Path, results: Results) -> Path:
    """Draw ``path`` with its numbers as CSV beside it."""
    drawn, table = results.spec.figure, summary(results)
    placed = table.assign(by=table[drawn.by], x=places(table[str(drawn.along)]))
    look = level_looks(results.spec.shown)
    with styled():
        page = new_page(2.7, f"{NOTE} \N{MIDDLE DOT} {caption(results.metas)}")
        axes = page.subplots()
        draw_delays(axes, placed, look)
        axes.set_xlabel(drawn.along_label or str(drawn.along))
        axes.set_ylabel(drawn.label)
        keys = [
            Line2D([], [], color=each.colour, marker="o", markersize=3.5, label=name) for name, each in look.items()
        ]
        page.legend(handles=keys, loc="outside upper left", ncols=len(keys), columnspacing=1.3)
    return save(page, path, beside(table, paper_values(results), results.spec.compared))


def places(levels: pd.Series) -> pd.Series:
    """Numbers where they are, the fault to the right of them."""
    x = pd.to_numeric(levels, errors="coerce")
    return x.where(levels != FAULT, APART * x.max())


def draw_delays(axes: Axes, table: pd.DataFrame, looks: dict[str, Look]) -> None:
    """Draw ``by``, ``x`` (:func:`places`), ``value``, ``low``, ``high``; what never ends is an arrow at the top."""
    last = float(table["x"].max())
    finite = table[np.isfinite(table["value"])].sort_values("x", kind="stable")
    none = pd.DataFrame(columns=["by", "x", "value", "std"])
    draw_lines(axes, finite[finite["x"] < last], none, looks)
    draw_lines(axes, finite[finite["x"] == last], none, looks)
    top = 1.12 * float(finite["value"].max())
    for name, look in looks.items():
        mine = table[table["by"] == name].sort_values("x", kind="stable")
        ends = [each for each in mine.itertuples() if each.x == last]
        before = mine[mine["x"] < last]
        for end in ends:
            y = top if np.isposinf(end.value) else end.value
            axes.plot(
                [before["x"].iloc[-1], last],
                [before["value"].iloc[-1], y],
                color=look.colour,
                linestyle=":",
                linewidth=0.9,
            )
            if np.isposinf(end.value):
                axes.plot([last], [top], color=look.colour, marker="^", markersize=6, clip_on=False)
    axes.set_ylim(0.0, top)
    numbers = sorted(set(table["x"]) - {last})
    axes.set_xticks([*numbers, last], [*(f"{x:g}" for x in numbers), FAULT])
    axes.grid(visible=True, axis="y")
