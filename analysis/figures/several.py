"""The figures of a comparison; one panel per case, strategies in the same order and colour in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures.bars import draw_bars, draw_spent
from analysis.figures.convergence import draw_convergence
from analysis.figures.names import shown_case
from analysis.figures.page import NARROW_IN, legend_above, new_page, page_width_in, save, styled
from analysis.figures.style import looks
from analysis.figures.time_axis import step_in, unit_of
from analysis.measures.stats import curves, time_shares
from analysis.records.provenance import caption

INTERVAL = "bars: median, line: 95 % interval (Student's t), dots: runs"
BAND = "lines: median over the runs, bands: lowest to highest"


def draw_comparison(
    folder: Path,
    metas: Sequence[dict[str, Any]],
    runs: pd.DataFrame,
    table: pd.DataFrame,
    scored: Sequence[pd.DataFrame],
) -> list[Path]:
    """Draw every figure for which there is data. Returns the PNGs.

    Args:
        folder: output directory.
        metas: ``meta.json`` of the runs, for the caption.
        runs: one row per run (:func:`analysis.measures.stats.run_table`).
        table: one row per case and strategy (:func:`analysis.measures.stats.compare_runs`).
        scored: ``asked_s`` and ``value`` for every row of ``runs``.
    """
    about = caption(metas)
    with styled():
        figures = [
            _convergence(folder, about, runs, table, scored),
            _times(folder, about, runs, table),
            _plot_spent(folder, about, runs),
        ]
    return [figure for figure in figures if figure is not None]


def _convergence(
    folder: Path, about: str, runs: pd.DataFrame, table: pd.DataFrame, scored: Sequence[pd.DataFrame]
) -> Path | None:
    shown, cases = [], list(dict.fromkeys(table["case"]))
    several = bool((table["runs"] > 1).any())
    height_in = max(2.9, 0.36 * table["strategy"].nunique())  # the legend has two lines for each strategy
    page = new_page(height_in * len(cases), f"{BAND} \N{MIDDLE DOT} {about}" if several else about)
    for case, axes in zip(cases, np.atleast_1d(page.subplots(len(cases), 1)), strict=True):
        mine = [index for index, name in enumerate(runs["case"]) if name == case]
        curve = curves([scored[index] for index in mine], list(runs["strategy"].iloc[mine]))
        marks = table[table["case"] == case].rename(columns={"tta_missed": "missed"})
        metric, target = marks["metric"].iloc[0], float(marks["target"].iloc[0])
        draw_convergence(axes, curve, marks, looks(table["strategy"]), metric, None if isnan(target) else target)
        axes.set_title(shown_case(case))
        shown.append(curve.assign(case=case))
    numbers = pd.concat(shown, ignore_index=True)
    return save(page, folder / "convergence.png", numbers) if len(numbers) else None


def _times(folder: Path, about: str, runs: pd.DataFrame, table: pd.DataFrame) -> Path | None:
    measured = [("jct", "job completion time", "cut off")]
    if table["tta_s"].notna().any():
        measured.append(("tta", "time to the target", "missed"))
    cases = list(dict.fromkeys(table["case"]))
    rows = max(int((table["case"] == case).sum()) for case in cases)
    several = bool((table["runs"] > 1).any())
    stacked = len(measured) if page_width_in() < NARROW_IN else 1  # panels above one another where two have no room
    height_in = (0.75 + 0.34 * rows) * len(cases) * stacked
    page = new_page(height_in, f"{INTERVAL} \N{MIDDLE DOT} {about}" if several else about)
    grid = page.subplots(len(cases) * stacked, len(measured) // stacked, squeeze=False, sharey="row")
    for case, line in zip(cases, grid.reshape(len(cases), len(measured)), strict=True):
        for axes, (name, label, miss) in zip(line, measured, strict=True):
            bars, dots = table[table["case"] == case], runs[runs["case"] == case]
            bars = bars.rename(columns={f"{name}_{key}": key for key in ("low_s", "high_s", "missed")})
            bars, dots = bars.assign(value_s=bars[f"{name}_s"]), dots.assign(value_s=dots[f"{name}_s"])
            step_s = float(bars["tta_step_s"].max()) if name == "tta" else 0.0
            longest_s = float(bars["value_s"].replace(np.inf, np.nan).max())
            step = f"\nor up to {step_in(step_s, unit_of(longest_s))} sooner" if step_s > 0.0 else ""
            draw_bars(axes, bars, dots, looks(table["strategy"]), label, miss, step)
        line[0].set_title(shown_case(case))
    return save(page, folder / "times.png", table)


def _plot_spent(folder: Path, about: str, runs: pd.DataFrame) -> Path | None:
    shares = time_shares(runs)
    cases = list(dict.fromkeys(shares["case"]))
    rows = max(int((shares["case"] == case).sum()) for case in cases)
    page = new_page((0.75 + 0.34 * rows) * len(cases) + 0.15, f"mean over the runs \N{MIDDLE DOT} {about}")
    for case, axes in zip(cases, np.atleast_1d(page.subplots(len(cases), 1)), strict=True):
        draw_spent(axes, shares[shares["case"] == case])
        axes.set_title(shown_case(case))
    legend_above(page, page.axes[0].get_legend_handles_labels()[0])
    return save(page, folder / "time_spent.png", shares)
