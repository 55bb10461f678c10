"""A second look at where curves that rise or fall together end: differences there are thinner than a line otherwise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.style import FAINT, Look

BAND_FRAC = 0.2
"""Part of all values in which the curves lie after some time, at most: above it they are distinct as they are."""
LATEST_FRAC = 0.75
"""That time, at most, as a part of the axis: a shorter piece would show too little."""
MARGIN = 0.12
"""Room above and below the curves, as a fraction of their band."""
RISING, FALLING = (0.42, 0.3, 0.56, 0.4), (0.42, 0.42, 0.56, 0.5)
"""Where such curves leave room: left, bottom, width and height, as fractions of the axes."""
TIMES = 200


class Window(NamedTuple):
    """The piece that is drawn again: seconds, and values of the metric."""

    start_s: float
    end_s: float
    low: float
    high: float


def late_window(curves: pd.DataFrame) -> Window | None:
    """From when on all curves lie in a narrow band; None for one curve, for equal ones, and where they differ visibly.

    ``curves``: ``label``, ``t_s``, ``median`` (:func:`analysis.measures.stats.curves`). A curve that has ended counts
    with its last value.
    """
    if curves["label"].nunique() < 2:
        return None
    end_s = float(curves["t_s"].max())
    times = np.linspace(0.0, end_s, TIMES, endpoint=False)
    values = np.array([np.interp(times, curve["t_s"], curve["median"]) for _, curve in curves.groupby("label")])
    last = curves.groupby("label")["median"].last().to_numpy()[:, None]
    values = np.concatenate([values, last], axis=1)
    if not np.isfinite(values).all():
        return None
    high = np.maximum.accumulate(values.max(axis=0)[::-1])[::-1]
    low = np.minimum.accumulate(values.min(axis=0)[::-1])[::-1]
    narrow = np.flatnonzero(high - low <= BAND_FRAC * (high[0] - low[0]))
    first = int(narrow[0]) if len(narrow) else TIMES
    if not 0 < first < LATEST_FRAC * TIMES or high[first] == low[first]:
        return None
    room = MARGIN * (high[first] - low[first])
    return Window(float(times[first]), end_s, float(low[first] - room), float(high[first] + room))


def draw_zoom(axes: Axes, curves: pd.DataFrame, looks: dict[str, Look], target: float | None) -> Axes | None:
    """Draw that piece again, larger, where the curves leave room; returns its axes."""
    window = late_window(curves)
    if window is None:
        return None
    values = curves.sort_values("t_s")["median"]
    place = RISING if values.iloc[-1] >= values.iloc[0] else FALLING
    inset = axes.inset_axes(place, xlim=window[:2], ylim=window[2:])
    inset.set_facecolor("white")
    for label, curve in curves.groupby("label", sort=False):
        look = looks[str(label)]
        if curve["runs"].iloc[0] > 1:
            inset.fill_between(curve["t_s"], curve["low"], curve["high"], color=look.colour, alpha=0.12, linewidth=0)
        inset.plot(curve["t_s"], curve["median"], color=look.colour, linestyle=look.line, linewidth=1.2)
    if target is not None:
        inset.axhline(target, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    inset.tick_params(labelsize=6.5, length=2, pad=1.5)
    inset.grid(visible=True, axis="y", linewidth=0.5)
    for side in inset.spines.values():
        side.set(visible=True, color=FAINT, linewidth=0.7)
    axes.indicate_inset_zoom(inset, edgecolor=FAINT, linewidth=0.7, alpha=1.0)
    return inset
