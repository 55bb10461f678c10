"""A map of a log: how long each step of each rank took, relative to a usual one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.figures.page import new_page, save, styled
from analysis.logs.step_log import StepLog
from analysis.measures.slow_steps import SlowSteps

MOST_COLUMNS = 240
"""Steps are shown together if there are more; the slowest of them counts."""
MOST_LABELS = 24
TOP = 3.0
"""Colours end at a step that is so many times as long, or before if none is."""


def draw_step_times(path: Path, log: StepLog, found: SlowSteps) -> Path:
    """Draw ranks over steps to ``path`` (PNG), with the numbers as CSV next to it. Returns ``path``."""
    ratio = log.own_s / found.usual_s
    width = -(-len(ratio) // MOST_COLUMNS)
    starts = np.arange(0, len(ratio), width)
    filled = np.where(np.isnan(ratio), 0.0, ratio)
    shown = np.maximum.reduceat(filled, starts, axis=0)
    with styled():
        figure = new_page(1.3 + 0.1 * min(len(log.ranks), 40), f"{log.source}; one step is {found.usual_s:.4g} s")
        axes = figure.add_subplot()
        top = min(TOP, max(1.2, float(shown.max())))
        image = axes.imshow(
            shown.T,
            aspect="auto",
            cmap="cividis",
            vmin=1.0,
            vmax=top,
            interpolation="nearest",
            extent=(log.steps[0], log.steps[-1] + 1, len(log.ranks) - 0.5, -0.5),
        )
        axes.set_xlabel("step")
        axes.set_ylabel("rank")
        every = -(-len(log.ranks) // MOST_LABELS)
        axes.set_yticks(range(0, len(log.ranks), every), log.ranks[::every])
        figure.colorbar(image, label="of a usual step", extend="max")
        rows = pd.DataFrame(shown, columns=[f"rank {name}" for name in log.ranks])
        rows.insert(0, "step", [log.steps[start] for start in starts])
        return save(figure, path, rows)
