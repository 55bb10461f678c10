"""Where curves differ: a part of the plot that is shown larger, if they coincide for most of it."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from analysis.figures.style import FAINT

NEAR_FRAC = 0.03
"""Curves that are closer than this part of their common range look like one."""
FLAT_FRAC = 0.12
"""Where curves reach the target within this part of the range, one cannot see which does so first."""
MOST_FRAC = 0.45
"""Curves that differ only before this part of the span coincide for most of it."""
POINTS = 400
PAD_FRAC = 0.06
ROOM = (0.5, 0.22, 0.47, 0.43)
"""Left, bottom, width and height of the enlargement of rising curves, as fractions of the axes: above the labels."""
FREE_FRAC = 0.3
"""The part of the range in which curves must stay there: the upper one if they rise, the lower one if they fall."""


class Window(NamedTuple):
    """A part of a plot: from ``left`` to ``right`` (s), from ``bottom`` to ``top`` (the metric)."""

    left: float
    right: float
    bottom: float
    top: float


def window(curves: pd.DataFrame, marks_s: Iterable[float] = (), target: float | None = None) -> Window | None:
    """The part to enlarge, if curves coincide for most of the span and leave room; else None (pure).

    It is where they reach the target if they are close together there, else where they differ at the beginning.

    Args:
        curves: ``label``, ``t_s``, ``median``, as for :func:`analysis.figures.convergence.draw_convergence`.
        marks_s: times at which curves reach the target (infinite: never).
        target: of the metric; None: there is none.
    """
    lines = [line.sort_values("t_s") for _, line in curves.groupby("label", sort=False)]
    if len(lines) < 2:
        return None
    span_s, range_ = float(curves["t_s"].max()), float(np.ptp(curves["median"]))
    if not span_s > 0.0 or not range_ > 0.0:
        return None
    times = np.linspace(max(line["t_s"].iloc[0] for line in lines), span_s, POINTS)
    heights = np.array([np.interp(times, line["t_s"], line["median"]) for line in lines])
    if not _leave_room(heights[:, times >= ROOM[0] * span_s], curves["median"]):
        return None
    reached_s = sorted(mark for mark in marks_s if isfinite(mark))
    if target is not None and len(reached_s) > 1:
        left, right = reached_s[0] - PAD_FRAC * span_s, min(reached_s[-1] + PAD_FRAC * span_s, span_s)
        shown = heights[:, (times >= left) & (times <= right)]
        if float(np.ptp(shown, axis=0).mean()) <= FLAT_FRAC * range_:
            reach = float(np.median(np.ptp(shown, axis=0))) + PAD_FRAC / 2 * range_
            return Window(max(left, 0.0), right, target - reach, target + reach)
    apart = np.flatnonzero(np.ptp(heights, axis=0) > NEAR_FRAC * range_)
    if not len(apart) or float(times[apart[-1]]) > MOST_FRAC * span_s:
        return None
    left, right = times[apart[[0, -1]]] + PAD_FRAC * span_s * np.array([-1.0, 1.0])
    shown = heights[:, (times >= left) & (times <= right)]
    pad = PAD_FRAC * float(np.ptp(shown))
    return Window(max(float(left), 0.0), float(right), float(shown.min()) - pad, float(shown.max()) + pad)


def _leave_room(late: NDArray[np.float64], all_: pd.Series) -> bool:
    low, high = float(all_.min()), float(all_.max())
    free = FREE_FRAC * (high - low)
    return bool(late.min() >= high - free or late.max() <= low + free)


def draw_window(axes: Axes, part: Window, target: float | None, *, rising: bool) -> Axes:
    """Draw the curves of ``axes`` once more in a free corner, where they show ``part``; returns the axes there."""
    left, bottom, width, height = ROOM
    inset = axes.inset_axes((left, bottom if rising else 0.97 - height, width, height))
    for line in axes.get_lines():
        times, heights = (np.asarray(values, dtype=float) for values in line.get_data())
        if len(times) > 2:  # others are marks of single times
            look: dict[str, Any] = {
                "color": line.get_color(),
                "linestyle": line.get_linestyle(),
                "linewidth": line.get_linewidth(),
            }
            inset.plot(times, heights, marker=line.get_marker(), markevery=line.get_markevery(), markersize=3.5, **look)
    if target is not None:
        inset.axhline(target, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    inset.spines[:].set_visible(True)
    inset.spines[:].set_color(FAINT)
    inset.set_xlim(part.left, part.right)
    inset.set_ylim(part.bottom, part.top)
    inset.tick_params(labelsize=7)
    axes.indicate_inset_zoom(inset, edgecolor=FAINT)
    return inset
