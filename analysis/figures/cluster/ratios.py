"""Paired ratios of jobs: how much sooner or later each job was done than in the baseline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.cluster.curves import distribution, draw_distribution, frame_distribution, keys_of, looks_of
from analysis.figures.page import new_page, save
from analysis.figures.style import FAINT, INK

HOW = {
    "seeds": "seeds (Student's t)",
    "jobs": "jobs (bootstrap; one seed: the interval does not cover other workloads)",
}
"""Over what an interval is, by ``ratio_over``."""


def draw_ratios(path: Path, pairs: pd.DataFrame, table: pd.DataFrame, baseline: str, about: str) -> Path | None:
    """Draw the distribution of the ratios above their medians with intervals.

    Args:
        path: the PNG.
        pairs: ratios of one case (:func:`analysis.measures.cluster.comparing.paired_jobs`).
        table: rows of that case (:func:`analysis.measures.cluster.comparing.compare_clusters_table`).
        baseline: the label that the ratios are relative to.
        about: the caption.
    """
    rows = table[(table["label"] != baseline) & (table["pairs"] > 0)]
    if not len(rows):
        return None
    looks = looks_of(table["label"])
    page = new_page(2.5 + 0.26 * len(rows), f"{_note(rows)} \N{MIDDLE DOT} {about}")
    above, below = page.subplots(2, 1, sharex=True, height_ratios=[2.0, 0.15 + 0.26 * len(rows)])
    shown = []
    for label in rows["label"]:
        curve = distribution(pairs.loc[pairs["label"] == label, "ratio"])
        draw_distribution(above, curve, looks[label], floor=1e-3)
        shown.append(curve.assign(label=label))
    frame_distribution(above, "", "jobs")
    for y, row in enumerate(rows.itertuples()):
        below.plot([row.jct_ratio_low, row.jct_ratio_high], [y, y], color=INK, linewidth=1.0)
        below.plot(row.jct_ratio, y, "o", color=looks[row.label].colour, markersize=5)
        below.text(1.01, y, f"{row.jct_ratio:.2f}", transform=below.get_yaxis_transform(), va="center", fontsize=8)
    below.set_yticks(range(len(rows)), list(rows["label"]))
    below.set_ylim(len(rows) - 0.5, -0.5)
    below.tick_params(axis="y", length=0)
    below.grid(visible=True, axis="x")
    below.set_xlabel(f"completion time of a job / that with {baseline} (less is better)")
    _scale(below, shown)
    for axes in (above, below):
        axes.axvline(1.0, color=FAINT, linewidth=0.8)
    keys = {label: looks[label] for label in rows["label"]}
    page.legend(handles=keys_of(keys), loc="outside upper left", ncols=min(5, len(keys)), columnspacing=1.3)
    return save(page, path, pd.concat(shown, ignore_index=True))


def _note(rows: pd.DataFrame) -> str:
    over = " or ".join(HOW[name] for name in dict.fromkeys(rows["ratio_over"]))
    return f"{rows['pairs'].max()} pairs of jobs; dots: medians, lines: 95 % interval over the {over}"


def _scale(axes: Axes, curves: list[pd.DataFrame]) -> None:
    values = np.concatenate([curve["value"].to_numpy() for curve in curves])
    low, high = np.quantile(values[values > 0.0], [0.005, 0.995]) if (values > 0.0).any() else (0.5, 2.0)
    axes.set_xscale("log")
    axes.set_xlim(min(0.8, float(low) / 1.1), max(1.25, float(high) * 1.1))
    ticks = [
        t
        for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
        if axes.get_xlim()[0] <= t <= axes.get_xlim()[1]
    ]
    if len(ticks) < 3:
        ticks = [t for t in (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5) if axes.get_xlim()[0] <= t <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
