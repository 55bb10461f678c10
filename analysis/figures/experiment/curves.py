"""An experiment as its metric over time: a colour per level of ``by``, a line style per level of ``along``."""

from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.claims.answers import by_seed
from analysis.experiments.results import Results
from analysis.experiments.spec import Cell
from analysis.figures.names import shown_name
from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import INK, LINES, Look, level_looks
from analysis.figures.time_axis import time_axis
from analysis.measures import targets
from analysis.measures.small_samples import interval, median
from analysis.measures.stats import curves
from analysis.records.provenance import caption

NOTE = "curves: median over the seeds, shaded: from the least to the largest"
ENDS = "on the right, points: median over the seeds, lines: 95 % interval (Student's t), dots: runs"
PERPLEXITY_TICKS = (1, 4, 7, 10, 12)
"""The last is slightly above the perplexity of guessing among ten classes; diverged runs are drawn on it."""
FITTING = 16
"""Characters of names that fit below the panel of final values next to each other."""
GROUP = 0.7
"""Width of the points of a panel among the final values; 1 is the distance between two panels' points."""


def draw(path: Path, results: Results) -> Path:
    """Draw ``path`` and a CSV file with its numbers; a measure ``perplexity`` is plotted, too, below the metric.

    Without ``along``, a last panel shows the value that each level converged to, by panel.
    """
    drawn, spec = results.spec.figure, results.spec
    panels = list(spec.axes[drawn.panels]) if drawn.panels else [None]
    what = [str(results.metas[0]["job"]["metric"]), *(["perplexity"] if "perplexity" in spec.measures else [])]
    looks, shown = looks_of(results), []
    ends = drawn.along is None
    note = f"{NOTE}; {ENDS}" if ends else NOTE
    with styled():
        page = new_page(2.5 * len(what), f"{note} \N{MIDDLE DOT} {caption(results.metas)}")
        ratios = [1.0] * len(panels) + [0.55] * ends
        grid = page.subplots(len(what), len(ratios), squeeze=False, width_ratios=ratios)
        for row, name in zip(grid, what, strict=True):
            for level, axes in zip(panels, row, strict=False):
                if axes is not row[0]:
                    axes.sharey(row[0])
                    axes.tick_params(axis="y", labelleft=False)
                frame = curves_of(results, level, name)
                draw_curves(axes, frame, looks, name)
                axes.set_title(title_of(results, level))
                shown.append(frame.assign(metric=name, panel=level or ""))
            row[0].set_ylabel(name)
            if ends:
                draw_ends(row[-1], results, looks)
        for axes in grid[-1][: len(panels)]:
            time_axis(axes.xaxis, "time since the start of the job")
        keys = grid[0][0].get_legend_handles_labels()[0]
        for key in keys:
            key.set_label(shown_label(results, str(key.get_label())))
        legend_above(page, keys)
    return save(page, path, pd.concat(shown, ignore_index=True))


def label_of(results: Results, cell: Cell) -> str:
    """The label of a curve: its levels of ``by`` and ``along``."""
    drawn = results.spec.figure
    along = f" {drawn.along} {cell.levels[drawn.along]}" if drawn.along else ""
    name = cell.levels[drawn.by]
    return f"{drawn.by} = {name}{along}" if name.isdecimal() else f"{name}{along}"


def title_of(results: Results, panel: str | None) -> str:
    """The title of a panel: ``8 workers``, or the level's name."""
    drawn = results.spec.figure
    return "" if panel is None else drawn.names.get(panel) or f"{panel} {drawn.panels}"


def shown_label(results: Results, label: str) -> str:
    """The label of a curve with the names that people know."""
    drawn = results.spec.figure
    return label if label.startswith(f"{drawn.by} = ") else shown_name(label, drawn.names)


def looks_of(results: Results) -> dict[str, Look]:
    """A colour per level of ``by``, a line style per level of ``along``."""
    drawn = results.spec.figure
    colours = level_looks(results.spec.shown_levels, drawn.looks)
    lines = list(results.spec.axes[drawn.along]) if drawn.along else []
    found = {}
    for cell, _ in results.evaluations:
        line = LINES[lines.index(cell.levels[drawn.along])] if drawn.along else "-"
        if cell.levels[drawn.by] in colours:
            found[label_of(results, cell)] = Look(colours[cell.levels[drawn.by]].colour, line)
    return found


def curves_of(results: Results, panel: str | None, metric: str) -> pd.DataFrame:
    """:func:`analysis.measures.stats.curves` of one panel; ``perplexity`` takes the curves of ``loss``."""
    chosen = [(cell, each) for cell, each in results.evaluations if panel in (None, *cell.levels.values())]
    scored = [targets.scores(each, "loss" if metric == "perplexity" else metric) for _, each in chosen]
    if metric == "perplexity":
        scored = [each.assign(value=np.exp(each["value"].clip(upper=50.0))) for each in scored]
    return curves(scored, [label_of(results, cell) for cell, _ in chosen])


def draw_curves(axes: Axes, frame: pd.DataFrame, looks: dict[str, Look], metric: str) -> None:
    """One panel: ``label``, ``t_s``, ``median``, ``low``, ``high``."""
    limits = (1.0, float(PERPLEXITY_TICKS[-1])) if metric == "perplexity" else (-inf, inf)
    for label, look in looks.items():
        mine = frame[frame["label"] == label]
        mine = mine.assign(**{name: mine[name].clip(*limits) for name in ("median", "low", "high")})
        axes.plot(mine["t_s"], mine["median"], color=look.colour, linestyle=look.line, linewidth=1.1, label=label)
        axes.fill_between(mine["t_s"], mine["low"], mine["high"], color=look.colour, alpha=0.13, linewidth=0)
    axes.set_xlim(left=0.0)
    axes.grid(visible=True, axis="y")
    if metric == "perplexity":
        axes.set_ylim(*limits)
        axes.set_yticks(
            PERPLEXITY_TICKS, [*map(str, PERPLEXITY_TICKS[:-1]), f"\N{GREATER-THAN OR EQUAL TO} {PERPLEXITY_TICKS[-1]}"]
        )


def draw_ends(axes: Axes, results: Results, looks: dict[str, Look]) -> None:
    """The value that each level of ``by`` converged to, by panel: median with interval, and the runs."""
    drawn, shown = results.spec.figure, results.spec.shown_levels
    panels = list(results.spec.axes[drawn.panels]) if drawn.panels else []
    step = GROUP / len(shown) if panels else 1.0
    for place, panel in enumerate(panels or [None]):
        for number, (level, look) in enumerate(zip(shown, looks.values(), strict=True)):
            cell = {drawn.by: level} if panel is None else {drawn.by: level, str(drawn.panels): panel}
            values = by_seed(results.runs, cell, drawn.value)
            x = place + step * (number - (len(shown) - 1) / 2) if panels else float(number)
            axes.plot(
                [x + 0.2 * step] * len(values), values, "o", color=INK, markersize=2, markeredgewidth=0, alpha=0.6
            )
            axes.plot([x, x], interval(values), color=look.colour, linewidth=1.4)
            axes.plot(x, median(values), "o", color=look.colour, markersize=5)
    names = [title_of(results, panel) for panel in panels] or [shown_name(level, drawn.names) for level in shown]
    axes.set_xticks(range(len(names)), names)
    if sum(map(len, names)) > FITTING:
        axes.tick_params(axis="x", labelrotation=25)
    axes.set_xlim(-0.5, len(names) - (0.5 if panels else 0.3))
    axes.set_xlabel(drawn.panels or drawn.by)
    axes.set_title(drawn.label)
    axes.grid(visible=True, axis="y")
