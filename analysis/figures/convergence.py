"""The metric against time: one curve per strategy, the target, and when each reached it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan, nan
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import Normal, Stroke

from analysis.figures.names import shown_name
from analysis.figures.page import NARROW_IN
from analysis.figures.style import FAINT, Look
from analysis.figures.time_axis import Unit, step_in, time_axis, unit_of
from analysis.figures.zoom import draw_zoom

MARKER_GAP = 0.14
"""Distance of a curve's markers, as a fraction of the diagonal."""
MARKER = {"markersize": 4.5, "markeredgecolor": "white", "markeredgewidth": 0.5}
LINE_PT = 9.0
"""Distance of labels above one another."""
LABEL_GAP = 0.085
"""Minimum distance of two labels at the same height, as a fraction of the axis."""
MOST_LEVELS = 5
"""Labels above one another, at most: an enlarged piece of the curves is above them."""


def draw_convergence(
    axes: Axes, curves: pd.DataFrame, marks: pd.DataFrame, looks: dict[str, Look], metric: str, target: float | None
) -> None:
    """Draw one case.

    Args:
        axes: where to draw.
        curves: ``label``, ``t_s``, ``median``, ``low``, ``high``, ``runs`` (:func:`analysis.measures.stats.curves`).
        marks: ``strategy``, ``tta_s`` (infinite: missed; nan: no target), ``tta_step_s``, ``missed`` (runs), ``runs``.
        looks: the look of every label.
        metric: name for the axis.
        target: drawn as a line; None for none.
    """
    axes.set_xlim(0.0, float(curves["t_s"].max()) * 1.02 if len(curves) else 1.0)
    unit = unit_of(axes.get_xlim()[1])
    for number, (label, curve) in enumerate(curves.groupby("label", sort=False)):
        look = looks[str(label)]
        if curve["runs"].iloc[0] > 1:
            axes.fill_between(curve["t_s"], curve["low"], curve["high"], color=look.colour, alpha=0.16, linewidth=0)
        text = shown_name(str(label)) + _tta_text(marks, str(label), unit)
        every = (MARKER_GAP * (number % 3) / 3, MARKER_GAP)  # not all at the same place where curves coincide
        cue: dict[str, Any] = {"marker": look.marker or None, "markevery": every, **MARKER}
        axes.plot(curve["t_s"], curve["median"], color=look.colour, linestyle=look.line, label=text, **cue)
    if target is not None:
        axes.axhline(target, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            f"target {target:g}",
            (0.0, target),
            (3, 4.0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            fontsize=7.5,
            color=FAINT,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.2},  # the frame of the zoom passes behind it
            zorder=6,
        )
        _draw_marks(axes, marks, looks, target)
    step_s = nan if target is None else float(marks["tta_step_s"].max())
    late = f"; the target is seen up to {step_in(step_s, unit)} late" if step_s > 0.0 else ""
    time_axis(axes.xaxis, "time since the start of the job", late)
    axes.set_ylabel(metric)
    axes.grid(visible=True, axis="y")
    if len(curves) and axes.get_figure(root=True).get_figwidth() >= NARROW_IN:  # type: ignore[union-attr]
        draw_zoom(axes, curves, looks, target)
    _draw_legend(axes, curves)


def _draw_legend(axes: Axes, curves: pd.DataFrame) -> None:
    """Legend inside the axes for one curve, outside for several: only one curve leaves a corner free."""
    if curves["label"].nunique() > 1 and axes.get_figure(root=True).get_figwidth() < NARROW_IN:  # type: ignore[union-attr]
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=2, columnspacing=1.0, labelspacing=0.4)
    elif curves["label"].nunique() > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), borderaxespad=0.2, labelspacing=0.7)
    elif len(curves):
        rising = curves["median"].iloc[-1] >= curves["median"].iloc[0]
        axes.legend(loc="lower right" if rising else "upper right", borderaxespad=1.6, frameon=True, edgecolor="none")


def _tta_text(marks: pd.DataFrame, label: str, unit: Unit) -> str:
    row = marks[marks["strategy"] == label].iloc[0]
    if isnan(row["tta_s"]):
        return ""
    missed = f", {row['missed']} of {row['runs']} missed" if row["missed"] and row["runs"] > 1 else ""
    if not isfinite(row["tta_s"]):
        return "\ntarget missed" + (f" by {row['missed']} of {row['runs']}" if row["runs"] > 1 else "")
    return f"\nTTA {row['tta_s'] / unit.seconds:.1f} {unit.name}{missed}"


def _draw_marks(axes: Axes, marks: pd.DataFrame, looks: dict[str, Look], target: float) -> None:
    """Drop lines from the target to the time axis; labels that would overlap are stacked."""
    bottom, width = axes.get_ylim()[0], axes.get_xlim()[1]
    axes.set_ylim(bottom=bottom)
    reached = marks[marks["tta_s"].map(isfinite)].sort_values("tta_s")
    for mark in reached.itertuples():
        colour = looks[mark.strategy].colour
        axes.plot([mark.tta_s] * 2, [bottom, target], color=colour, linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=1.5)
        axes.plot(mark.tta_s, target, "o", color=colour, markersize=4, markeredgecolor="white", markeredgewidth=0.6)
    for label in stacked_labels(list(reached["tta_s"]), width, unit_of(width).seconds):
        alone = label.number == 1  # a shared label has no strategy's colour
        axes.annotate(
            label.text,
            (label.t_s, 0.02),
            xycoords=axes.get_xaxis_transform(),
            xytext=(2.5, LINE_PT * label.level),
            textcoords="offset points",
            fontsize=7.5,
            color=looks[reached["strategy"].iloc[label.first]].colour if alone else FAINT,
            fontweight="bold",
            path_effects=[Stroke(linewidth=2.5, foreground="white"), Normal()],
        )


class TimeLabel(NamedTuple):
    """The text of ``number`` times, of which ``first`` is the index of the first; ``level`` lines above the axis."""

    t_s: float
    text: str
    first: int
    number: int
    level: int


def stacked_labels(times_s: Sequence[float], width_s: float, unit_s: float = 1.0) -> list[TimeLabel]:
    """Labels of sorted times on an axis of this width: those that would overlap are above one another.

    ``unit_s`` is the unit of the texts. Equal texts share a label. Labels above ``MOST_LEVELS`` would cover curves, so
    only legends have them.
    """
    found: list[TimeLabel] = []
    last_s, level = float("-inf"), 0
    for index, t_s in enumerate(times_s):
        text = f"{t_s / unit_s:.1f}"
        if found and found[-1].text == text:
            found[-1] = found[-1]._replace(number=found[-1].number + 1)
            continue
        level = level + 1 if t_s - last_s < LABEL_GAP * width_s else 0
        last_s = t_s
        found.append(TimeLabel(t_s, text, index, 1, level))
    return [label for label in found if label.level < MOST_LEVELS]
