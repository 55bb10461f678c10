"""An experiment as lines over a numeric axis: one per level of another axis, with the paper's points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.experiments.plotted import caption_of, numbers_of_figure, panels
from analysis.experiments.results import Results
from analysis.figures.names import shown_name
from analysis.figures.page import label_left, legend_above, new_panels, save, styled
from analysis.figures.style import FAINT, Look, level_looks

NOTE = "lines: median over the seeds, bars: 95 % interval (Student's t)"

MARKER = 4.0
"""Size of a marker, in points."""


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    drawn, whole = results.spec.figure, numbers_of_figure(results)
    each = panels(whole, results)
    look = level_looks(results.spec.shown_levels, drawn.looks)
    with styled():
        page, places = new_panels(2.7, caption_of(results, NOTE), len(each))
        for (level, mine), axes in zip(each, places, strict=True):
            draw_lines(axes, add_numeric_axis(mine.ours, results), add_numeric_axis(mine.paper, results), look)
            axes.set_title("" if level is None else shown_name(level, drawn.names))
            axes.set_xlabel(drawn.along_label or str(drawn.along))
            if drawn.log:
                axes.set_xscale("log", base=2)
        label_left(places, drawn.label)
        page.axes[0].set_ylim(bottom=0.0)  # after all panels are drawn, as it stops their shared autoscaling
        keys = [
            Line2D([], [], color=one.colour, marker=one.marker, markersize=MARKER, label=shown_name(name, drawn.names))
            for name, one in look.items()
        ]
        if len(whole.paper):
            keys.append(Line2D([], [], color=FAINT, marker="D", markerfacecolor="white", linestyle=":", label="paper"))
        legend_above(page, keys)
    return save(page, path, whole.together)


def add_numeric_axis(table: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Adds ``x`` from the level of the horizontal axis and ``by`` from the other; drops non-numeric levels."""
    drawn = results.spec.figure
    x = pd.to_numeric(table[drawn.along], errors="coerce")
    return table.assign(x=x, by=table[drawn.by])[x.notna()].sort_values("x", kind="stable")


def draw_lines(
    axes: Axes, table: pd.DataFrame, paper: pd.DataFrame, looks: dict[str, Look], nested_points: float = 0.0
) -> None:
    """Draw one panel.

    Args:
        axes: where to draw.
        table: ``by``, ``x``, ``value``, ``low``, ``high`` (NaN: no interval).
        paper: ``by``, ``x``, ``value``, ``std``.
        looks: the look of every ``by``.
        nested_points: by how much a marker is larger than the next one's, if points coincide.
    """
    for index, (name, look) in enumerate(looks.items()):
        ours, theirs = table[table["by"] == name], paper[paper["by"] == name]
        if len(theirs):
            axes.plot(
                *(theirs["x"], theirs["value"]),
                color=look.colour,
                linestyle=":",
                linewidth=1.0,
                marker="D",
                markersize=5,
                markerfacecolor="white",
                zorder=2,
            )
        if len(ours):
            axes.plot(
                ours["x"],
                ours["value"],
                color=look.colour,
                linestyle=look.line,
                marker=look.marker or "o",
                markersize=MARKER + nested_points * (len(looks) - 1 - index),
            )
            ends = np.array([ours["value"] - ours["low"], ours["high"] - ours["value"]])
            there = np.isfinite(ends).all(axis=0)
            if there.any():
                axes.errorbar(
                    *(ours["x"][there], ours["value"][there]),
                    yerr=ends[:, there].clip(min=0.0),
                    color=look.colour,
                    linestyle="none",
                    capsize=2.0,
                    elinewidth=0.9,
                )
    axes.grid(visible=True, axis="y")
