"""An experiment as bars: one per level of an axis, a panel per level of another, the paper's numbers as marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.claims.answers import by_seed
from analysis.claims.cells import cell_of
from analysis.experiments.plotted import caption_of, numbers_of_figure, panels
from analysis.experiments.results import RATIO, VALUE, Results
from analysis.experiments.spec import Drawing
from analysis.figures.bars import HEIGHT, draw_bars, limit_of
from analysis.figures.names import shown_name
from analysis.figures.page import new_panels, save, styled
from analysis.figures.style import ALIKE, PAPER_COLOUR, STRATEGY_COLOURS, Look, looks

NOTE = "bars: median over the seeds, line: 95 % interval (Student's t), dots: runs"
WIDTHS = {VALUE: 1.8, RATIO: 1.2}
"""Line widths of the paper's marks: values, and values that follow from its ratios."""
OTHERS = Look("#8d99a6")


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    drawn, whole = results.spec.figure, numbers_of_figure(results)
    each = panels(whole, results)
    rows = int(whole.ours[drawn.by].nunique())
    alike = all(list(mine.ours[drawn.by]) == list(each[0][1].ours[drawn.by]) for _, mine in each)
    own = own_strategies(results.spec.axes.get(drawn.by, {}))
    look = bar_looks(results.spec.shown_levels, own | drawn.looks)
    with styled():
        page, places = new_panels(0.85 + 0.32 * rows, caption_of(results, NOTE), len(each), sharey=alike)
        for (level, mine), axes in zip(each, places, strict=True):
            names = {drawn.by: "strategy", "value": "value_s", "low": "low_s", "high": "high_s"}
            bars = mine.ours.rename(columns=names)
            limit = inf if drawn.log else limit_of(bars["value_s"])
            half = mine.paper["std"].where(mine.paper["how"] == RATIO, 0.0)
            ends = zip(mine.paper["value"] - half, mine.paper["value"] + half, strict=True)
            marks = dict(zip(mine.paper[drawn.by], ends, strict=True))
            runs, miss = dots_of(results, level), missing_word(drawn.value)
            draw_bars(axes, bars, runs, look, drawn.label, miss, marks=marks, limit=limit)
            axes.set_yticks(range(len(bars)), [shown_name(one, drawn.names) for one in bars["strategy"]])
            if drawn.log:
                widen(axes, [*bars["value_s"], *bars["low_s"], *bars["high_s"], *mine.paper["value"]])
            draw_paper(axes, mine.paper.rename(columns={drawn.by: "strategy"}), list(bars["strategy"]))
            axes.set_title(results.spec.title if level is None else shown_name(level, drawn.names))
        if len(whole.paper):
            page.legend(handles=paper_keys(whole.paper, drawn), loc="outside upper right", ncols=2)
    return save(page, path, whole.together)


def missing_word(measure: str) -> str:
    """Say why a run lacks this measure: the job was cut off, or it never reached the target."""
    return "cut off" if measure == "jct_s" else "never"


def bar_looks(levels: Iterable[str], like: Mapping[str, str] = ALIKE) -> dict[str, Look]:
    """Strategies look as everywhere; other levels, which have their names next to their bars, alike.

    ``like`` names the strategy of a level whose name is another, or one of somebody's own.
    """
    strategies = {name: like.get(name, name) for name in levels}
    known = {name for name, one in strategies.items() if one in STRATEGY_COLOURS or name in like}
    return {name: looks([one])[one] if name in known else OTHERS for name, one in strategies.items()}


def own_strategies(levels: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The strategies that levels choose and that are none of ours, by level: they have a look, too."""
    chosen = {
        name: word.removeprefix("strategy=")
        for name, words in levels.items()
        for word in words
        if word.startswith("strategy=")
    }
    return {name: strategy for name, strategy in chosen.items() if strategy not in STRATEGY_COLOURS}


def widen(axes: Axes, values: Iterable[float]) -> None:
    """A logarithmic axis on which all of these can be seen, with room for the text next to the largest."""
    seen = [value for value in values if 0.0 < value < inf]
    axes.set_xscale("log")
    if seen:
        axes.set_xlim(min(seen) / 3.0, max(seen) * (max(seen) / min(seen)) ** 0.2 * 1.5)


def dots_of(results: Results, panel: str | None) -> pd.DataFrame:
    """``strategy`` and ``value_s`` of every run of a panel."""
    drawn, rows = results.spec.figure, []
    there = results.runs if panel is None else cell_of(results.runs, {str(drawn.panels): panel})
    for level in results.spec.shown_levels:
        values = by_seed(there, {drawn.by: level}, drawn.value) * drawn.scale
        rows += [{"strategy": level, "value_s": value} for value in values]
    return pd.DataFrame(rows, columns=["strategy", "value_s"])


def draw_paper(axes: Axes, marks: pd.DataFrame, order: list[str], height: float = HEIGHT + 0.16) -> None:
    """A line across the bar at the paper's number, or at both ends of its range, with a shade between them.

    ``strategy``, ``value``, ``std`` and ``how`` the paper says it; marks without a bar are left out.
    """
    for mark in marks[marks["strategy"].isin(order)].itertuples():
        y = order.index(mark.strategy)
        draw_mark(axes.vlines, axes.fill_betweenx, mark, (y - height / 2, y + height / 2))


def draw_mark(lines: Callable[..., Any], shade: Callable[..., Any], mark: Any, across: tuple[float, float]) -> None:
    """Draw one mark: ``value``, ``std`` and ``how``, with the methods of an axes that draw it and its range."""
    wide = mark.how == RATIO and mark.std > 0.0
    ends = [mark.value - mark.std, mark.value + mark.std] if wide else [mark.value]
    lines(ends, *across, color=PAPER_COLOUR, linewidth=WIDTHS[mark.how], zorder=3)
    if wide:
        shade(across, *ends, color=PAPER_COLOUR, alpha=0.25, linewidth=0)


def paper_keys(marks: pd.DataFrame, drawn: Drawing) -> list[Artist]:
    """Legend entries of the paper's numbers: its values, and what follows from its ratios."""
    to = ", ".join(shown_name(level, drawn.names) for levels in drawn.anchor.values() for level in levels)
    labels = {VALUE: "paper", RATIO: f"paper's ratio to our {to}" if to else "paper, by its ratios"}
    return [
        Line2D([], [], color=PAPER_COLOUR, linewidth=WIDTHS[how], label=label)
        for how, label in labels.items()
        if how in set(marks["how"])
    ]
