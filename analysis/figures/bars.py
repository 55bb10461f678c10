"""Bars, one per strategy: times with their interval and every run as a dot, and shares of the workers' time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, pairwise
from math import inf
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.names import shown_name
from analysis.figures.style import FAINT, INK, PHASE_COLOURS, Look
from analysis.figures.time_axis import time_axis, unit_of

HEIGHT = 0.62
NO_MARKS: Mapping[str, tuple[float, float]] = {}
ROOM_FRAC = 0.3
"""Room for the text next to a bar, as a fraction of the longest."""
FAR = 3.0
"""A value that is so many times the next smaller one would squash all others on its axis."""


def draw_bars(
    axes: Axes,
    bars: pd.DataFrame,
    dots: pd.DataFrame,
    looks: dict[str, Look],
    label: str,
    miss: str,
    seconds: str | None = None,
    marks: Mapping[str, tuple[float, float]] = NO_MARKS,
    limit: float = inf,
) -> None:
    """Draw horizontal bars, the first row on top.

    Args:
        axes: where to draw.
        bars: ``strategy``, ``value_s`` (median; infinite or nan: no bar), ``low_s``, ``high_s``, ``missed``, ``runs``.
        dots: ``strategy``, ``value_s`` of single runs; infinite ones are counted in the bar's text instead of drawn.
        looks: the look of every strategy.
        label: label of the axis.
        miss: the word for an infinite value.
        seconds: what follows the unit of the label, which is chosen here; None: all is shown in the unit that it has.
        marks: both ends of another value of a strategy, which must have room and not cross the text.
        limit: bars of a longer median are cut off (:func:`limit_of`); their text has the interval.
    """
    whole = bars[~(bars["value_s"] > limit)]
    runs_of_whole = dots.loc[dots["strategy"].isin(whole["strategy"]), "value_s"]
    finite = [
        v for v in [*whole["value_s"], *whole["high_s"], *runs_of_whole, *chain(*marks.values())] if np.isfinite(v)
    ]
    reach = max(finite, default=1.0)
    axes.set_xlim(0.0, reach * 1.34)
    unit_s = 1.0 if seconds is None else unit_of(reach * 1.34).seconds
    for y, bar in enumerate(bars.itertuples()):
        look = looks[bar.strategy]
        if np.isfinite(bar.value_s) and bar.value_s > limit:
            _draw_cut(axes, y, bar, look, reach, unit_s)
            continue
        runs = dots.loc[dots["strategy"] == bar.strategy, "value_s"].to_numpy()
        edge = max([v for v in (bar.value_s, bar.high_s, *runs) if np.isfinite(v)], default=0.0)
        nearest, farthest = marks.get(bar.strategy, (inf, inf))
        edge = max(edge, farthest) if nearest < edge + ROOM_FRAC * reach else edge
        edge = reach if np.isfinite(bar.value_s) and _is_open(bar.low_s, bar.high_s) else edge
        if np.isfinite(bar.value_s):
            axes.barh(
                y, bar.value_s, HEIGHT, color=look.colour, alpha=0.82, linewidth=0, edgecolor="white", hatch=look.hatch
            )
            _draw_interval(axes, y, bar.low_s, bar.high_s, reach)
        _draw_dots(axes, y, runs)
        _draw_text(axes, y, edge, bar, miss, unit_s)
    _name_rows(axes, list(bars["strategy"]))
    if seconds is None:
        axes.set_xlabel(label)
    else:
        time_axis(axes.xaxis, label, seconds)


def limit_of(values: Iterable[float]) -> float:
    """Where an axis may end: the largest value that has none ``FAR`` times smaller next to it, of the upper half.

    Infinite if no value is that far from the others.
    """
    seen = sorted(value for value in values if 0.0 < value < inf)
    gaps = (low for low, high in pairwise(seen[len(seen) // 2 :]) if high > FAR * low)
    return next(gaps, inf)


def _draw_cut(axes: Axes, y: int, bar: Any, look: Look, reach: float, unit_s: float) -> None:
    """A bar that goes on beyond the axis, with two strokes through it, its number and interval."""
    axes.barh(y, reach, HEIGHT, color=look.colour, alpha=0.82, linewidth=0, edgecolor="white", hatch=look.hatch)
    for x in (0.93, 0.955):
        axes.plot([x * reach, (x + 0.02) * reach], [y + 0.42, y - 0.42], color="white", linewidth=2.0)
    ends = np.array([bar.low_s, bar.high_s]) / unit_s
    text = number_text(bar.value_s / unit_s)
    text += "\n[{}, {}]".format(*map(number_text, ends)) if np.isfinite(ends).all() else ""
    axes.annotate(text, (reach, y), xytext=(5, 0), textcoords="offset points", va="center", fontsize=7, linespacing=1.0)


def draw_spent(axes: Axes, shares: pd.DataFrame) -> None:
    """Where the workers' time went: ``strategy`` and a share (0 to 1) in a column for each phase."""
    left = np.zeros(len(shares))
    for phase in ("compute", "data", "pull", "send", "injected", "wait"):
        part = shares[phase].fillna(0.0).to_numpy() * 100
        axes.barh(range(len(shares)), part, HEIGHT, left, color=PHASE_COLOURS[phase], linewidth=0, label=phase)
        for y, (start, width) in enumerate(zip(left, part, strict=True)):
            if width >= 5.0:
                ink = INK if phase in ("wait", "send", "pull") else "white"
                axes.text(start + width / 2, y, f"{width:.0f}", ha="center", va="center", fontsize=8, color=ink)
        left += part
    _name_rows(axes, list(shares["strategy"]))
    axes.set_xlim(0.0, 100.0)
    axes.set_xlabel("share of the workers' time (%)")


def _name_rows(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), [shown_name(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_color("#bbbbbb")
    axes.grid(visible=True, axis="x")


def number_text(value: float) -> str:
    """A number next to a bar, of two digits or more: ``8240``, ``24.1``, ``0.78``, ``0.013``."""
    digits = ".0f" if abs(value) >= 1000 else ".1f" if abs(value) >= 0.995 else "#.2g" if value else "g"
    return format(value, digits)


def _draw_text(axes: Axes, y: int, edge_s: float, bar: Any, miss: str, unit_s: float) -> None:
    """The median next to the bar, and below it how many runs did not finish; without a bar that, in two short lines.

    In one line it would reach into the next panel of a figure with many.
    """
    count = f"{bar.missed} of {bar.runs}" if bar.runs > 1 else ""
    number, gone = number_text(bar.value_s / unit_s), f"{count}\n{miss}".strip()
    text = "not\nmeasured" if np.isnan(bar.value_s) else number if np.isfinite(bar.value_s) else gone
    two = np.isfinite(bar.value_s) and bar.missed > 0
    common: dict[str, Any] = {"textcoords": "offset points", "va": "center"}
    lines = {"fontsize": 8} if "\n" not in text else {"fontsize": 7, "linespacing": 1.0}
    axes.annotate(text, (edge_s, y), xytext=(5, 4 if two else 0), **lines, **common)
    if two:
        axes.annotate(f"{count} {miss}".strip(), (edge_s, y), xytext=(5, -5), fontsize=6.5, color=FAINT, **common)


def _draw_interval(axes: Axes, y: int, low_s: float, high_s: float, reach_s: float) -> None:
    """A line with both ends marked; an arrow at ``reach_s`` where there is no upper end, nothing without either."""
    is_open = _is_open(low_s, high_s)
    end_s = reach_s if is_open else high_s
    if is_open or (np.isfinite([low_s, high_s]).all() and high_s > low_s):
        axes.plot([low_s, end_s], [y, y], color=INK, linewidth=1.0, solid_capstyle="butt")
        axes.plot(low_s, y, "|", color=INK, markersize=5, markeredgewidth=1.0)
        axes.plot(end_s, y, ">" if is_open else "|", color=INK, markersize=4 if is_open else 5, markeredgewidth=1.0)


def _is_open(low_s: float, high_s: float) -> bool:
    """Whether an interval has a lower end and no upper one: too many runs never ended."""
    return bool(np.isposinf(high_s) and np.isfinite(low_s) and low_s > 0.0)


def _draw_dots(axes: Axes, y: int, runs: np.ndarray) -> None:
    if len(runs) < 2:
        return
    offsets = y + HEIGHT * 0.3 * np.linspace(-1.0, 1.0, len(runs))
    there = np.isfinite(runs)
    axes.plot(runs[there], offsets[there], "o", color="white", markeredgecolor=INK, markeredgewidth=0.6, markersize=3)
