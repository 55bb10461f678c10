"""Straggler predictors compared: precision, recall, and lead times of their alarms."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MultipleLocator, NullLocator

from analysis.figures.names import shown_name
from analysis.figures.page import new_page, save, styled
from analysis.figures.style import FAINT, INK
from analysis.measures.prediction import lead_summary
from analysis.records.provenance import caption

RATES = {"precision": "precision (%)", "recall": "recall (%)"}
NOTE = (
    "dots: jobs, bars: their median; lead time: episodes (dots), their median (diamond) and middle half (line), "
    "above 0: tagged before it was slow"
)
COLOUR = "#3f78a8"
NAMES = {
    "last_value": "Last value",
    "ema": "Moving average",
    "arx": "ARX",
    "narx": "NARX",
    "lstm_ratio": "LSTM, ratios",
    "fixed_duration": "Slow for so long",
    "twice_median": "Twice the median",
    "nvrx": "NVRx",
    "megatron": "Megatron-LM's",
    "robust_z": "Robust z-score",
    "greyhound": "Greyhound's",
    "waits_least": "Waits least",
    "stage_frontier": "StageFrontier's",
    "by_work": "Beyond its work",
    "by_chance": "By chance",
    "star": "STAR's",
    "oracle": "Oracle",
}
"""The names of predictors in figures."""
LINEAR_REACH_S = 10.0
"""If lead times exceed this, the axis is logarithmic beyond a second in either direction."""


def draw_prediction(
    path: Path, metas: Sequence[dict[str, Any]], truth: str, scored: pd.DataFrame, leads: pd.DataFrame
) -> Path:
    """Draw ``path`` (a PNG); writes the numbers of its rates as a CSV file next to it.

    Args:
        path: output file.
        metas: ``meta.json`` of the runs, for the caption.
        truth: what the labels mean, for the caption.
        scored: ``group`` (one row of panels each), ``run``, ``predictor``, and the columns of
            :func:`analysis.measures.prediction.scores` at the job level.
        leads: ``group``, ``predictor``, and the columns of :func:`analysis.measures.prediction.lead_times`.
    """
    groups, names = list(dict.fromkeys(scored["group"])), list(dict.fromkeys(scored["predictor"]))
    reach = _reach(leads["lead_s"])
    with styled():
        page = new_page((0.85 + 0.24 * len(names)) * len(groups), f"{truth}; {NOTE} \N{MIDDLE DOT} {caption(metas)}")
        grid = page.subplots(len(groups), 3, squeeze=False, sharey=True, width_ratios=(1.0, 1.0, 1.55))
        for group, line in zip(groups, grid, strict=True):
            mine, episodes = scored[scored["group"] == group], leads[leads["group"] == group]
            for axes, (rate, label) in zip(line, RATES.items(), strict=False):
                _draw_rate(axes, mine, names, rate)
                axes.set_xlabel(label)
            _draw_leads(line[2], episodes, names, reach)
            line[0].set_title(group_title(group))
    return save(page, path, scored)


def group_title(group: str) -> str:
    """``bsp, straggler=transient`` is shown as ``BSP, straggler=transient``: a strategy, and its case if it has one."""
    strategy, comma, case = group.partition(", ")
    return f"{shown_name(strategy)}{comma}{case}"


def _draw_rate(axes: Axes, scored: pd.DataFrame, names: Sequence[str], rate: str) -> None:
    """One row per predictor: every job as a dot, the median as a bar."""
    for row, name in enumerate(names):
        values = 100 * scored.loc[scored["predictor"] == name, rate].dropna().to_numpy()
        if not len(values):
            axes.text(3, row, "not defined", va="center", fontsize=7, color=FAINT)
            continue
        axes.plot([0, np.median(values)], [row, row], color=COLOUR, linewidth=5.0, alpha=0.35, solid_capstyle="butt")
        axes.plot(values, [row] * len(values), "o", color=COLOUR, markersize=3.2, markeredgewidth=0)
    axes.set_xlim(0.0, 104.0)
    axes.xaxis.set_major_locator(MultipleLocator(50))
    _rows(axes, names)


def _draw_leads(axes: Axes, leads: pd.DataFrame, names: Sequence[str], reach: tuple[float, float]) -> None:
    """One row per predictor: every detected episode as a dot, their quartiles as lines, the others counted."""
    chance = np.random.default_rng(0)
    axes.axvline(0.0, color=FAINT, linewidth=0.8, zorder=1)
    for row, name in enumerate(names):
        mine = leads[leads["predictor"] == name]
        known, found = mine["lead_s"].dropna().to_numpy(), lead_summary(mine)
        jitter = chance.uniform(-0.26, 0.26, len(known))
        axes.plot(known, row + jitter, "o", color=COLOUR, markersize=2.6, markeredgewidth=0, alpha=0.6, zorder=5)
        if isfinite(found["lead_median_s"]):
            axes.plot([found["lead_q1_s"], found["lead_q3_s"]], [row, row], color=INK, linewidth=1.2, zorder=6)
            axes.plot(found["lead_median_s"], row, "D", color=INK, markersize=4.0, markeredgecolor="white", zorder=7)
        text = f"{found['missed']:.0f} of {found['episodes']:.0f}"
        axes.text(1.03, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7.5, color=INK)
    axes.text(1.03, 1.02, "missed", transform=axes.transAxes, va="bottom", fontsize=7.5, color=FAINT)
    if max(-reach[0], reach[1]) > LINEAR_REACH_S:
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.8)
        axes.set_xticks([tick for tick in (-100, -10, -1, 0, 1, 10, 100, 1000) if reach[0] <= tick <= reach[1]])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(reach)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}")))
    axes.set_xlabel("lead time of the alarm (s)")
    _rows(axes, names)


def _rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [predictor_name(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x")


def _reach(lead_s: pd.Series) -> tuple[float, float]:
    """Limits of the lead-time axis, with a margin."""
    known = lead_s.dropna()
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    return min(-1.0, 1.15 * low), max(1.0, 1.15 * high)


def predictor_name(label: str) -> str:
    """``fixed_duration:duration_s=1`` is shown as ``Slow for so long (duration_s=1)``."""
    name, _, settings = label.partition(":")
    text = NAMES.get(name, name)
    return f"{text} ({settings})" if settings else text
