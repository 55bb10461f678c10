"""An experiment as grouped bars: a group per level of one axis, with a bar per level of another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.experiments.plotted import caption_of, numbers_of_figure, panels
from analysis.experiments.results import Results
from analysis.figures.experiment.bars import draw_mark, paper_keys
from analysis.figures.names import NO_NAMES, shown_name, shown_title
from analysis.figures.page import label_left, legend_above, new_panels, save, styled
from analysis.figures.style import FAINT, Look, level_looks

NOTE = "bars: median over the seeds, lines: 95 % interval (Student's t)"
OPEN = ", dotted: too few runs ended for one"
ON_BAR = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "boxstyle": "round,pad=0.15"}
"""An outline that makes text on a bar legible, whatever its colour."""
WIDTH = 0.8
"""Width of a group; 1 is the distance between groups."""


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    drawn, whole = results.spec.figure, numbers_of_figure(results)
    each = panels(whole, results)
    look = level_looks(results.spec.shown_levels, drawn.looks)
    with styled():
        page, places = new_panels(2.4, caption_of(results, NOTE + OPEN * bool(is_open(whole.ours).any())), len(each))
        for (level, mine), axes in zip(each, places, strict=True):
            draw_groups(axes, mine.ours, str(drawn.along), drawn.by, look, drawn.names, mine.paper)
            axes.set_title("" if level is None else shown_title(str(drawn.panels), level, drawn.names))
            axes.set_xlabel(drawn.along_label or str(drawn.along))
        label_left(places, drawn.label)
        keys = [
            Patch(facecolor=one.colour, edgecolor="white", hatch=one.hatch, lw=0, label=shown_name(name, drawn.names))
            for name, one in look.items()
        ]
        legend_above(page, [*keys, *paper_keys(whole.paper, drawn)])
    return save(page, path, whole.together)


def draw_groups(
    axes: Axes,
    table: pd.DataFrame,
    along: str,
    by: str,
    looks: dict[str, Look],
    names: Mapping[str, str] = NO_NAMES,
    paper: pd.DataFrame | None = None,
) -> None:
    """Draw one panel.

    ``table`` has the columns ``along`` and ``by``, ``value`` (infinite: written in the bar's place), ``low``, ``high``,
    and how many of its ``runs`` did not finish (``missed``). ``paper`` has the columns ``along``, ``by``, ``value``,
    ``std`` and ``how``.
    """
    levels = list(dict.fromkeys(table[along]))
    width = WIDTH / len(looks)
    for index, (name, look) in enumerate(looks.items()):
        mine = table[table[by] == name].set_index(along).reindex(levels)
        x = np.arange(len(levels)) - WIDTH / 2 + width * (index + 0.5)
        value = mine["value"].to_numpy(dtype="float64")
        ends = np.array([value - mine["low"], mine["high"] - value], dtype="float64")
        finite, known = np.isfinite(value), np.isfinite(ends).all(axis=0)
        drawn: dict[str, Any] = {"color": look.colour, "edgecolor": "white", "hatch": look.hatch, "linewidth": 0}
        axes.bar(x[finite], value[finite], 0.92 * width, **drawn)
        axes.errorbar(
            x[known], value[known], ends[:, known].clip(min=0.0), color="black", linestyle="none", elinewidth=0.8
        )
        if paper is not None:
            theirs = paper[paper[by] == name]
            for mark in theirs[theirs[along].isin(levels)].itertuples():
                place = float(x[levels.index(getattr(mark, along))])
                draw_mark(axes.hlines, axes.fill_between, mark, (place - 0.46 * width, place + 0.46 * width))
        for place in x[is_open(mine)]:
            draw_open(axes, float(place))
        for never in x[np.isposinf(value)]:
            axes.text(never, 0.0, " never ends", rotation=90, ha="center", va="bottom", color=FAINT, fontsize=6.5)
        for place, missed, runs in zip(x[finite], mine["missed"][finite], mine["runs"][finite], strict=True):
            if missed:
                text = axes.text(place, 0.0, f" {missed:g} of {runs:g} never", rotation=90, ha="center", va="bottom")
                text.set(fontsize=6.5, bbox=ON_BAR)
    axes.set_xticks(range(len(levels)), [shown_name(level, names) for level in levels])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=True, axis="y")


def is_open(table: pd.DataFrame) -> np.ndarray:
    """Whether the bar of each row has an interval without an upper end."""
    return np.asarray(np.isfinite(table["value"]) & np.isposinf(table["high"].astype("float64")))


def draw_open(axes: Axes, x: float) -> None:
    """An interval without ends, from the bottom to an arrow at the top: some runs never ended, of too few."""
    across = axes.get_xaxis_transform()
    axes.plot([x, x], [0.0, 0.97], color="black", linewidth=0.8, linestyle=":", transform=across)
    axes.plot(x, 0.975, "^", color="black", markersize=3.5, transform=across)
