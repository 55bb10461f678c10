"""Pipelines as a chart: a panel per schedule, a lane per stage, a bar per pass; blank parts are bubbles."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import INK, PLAN_COLOUR

COLOURS = {"forward": "#9CCBE8", "backward": "#0072B2", "weight": "#009E73"}
NAMES = {"forward": "forward pass", "backward": "backward pass", "weight": "gradients of weights"}
BUBBLE = "#f1f1f1"
LANE_IN = 0.16
HALF = 0.42
"""Half of a bar's height; a lane is 1 high."""
LEAST_FRAC = 0.018
"""A bar of such a part of the width has room for its micro-batch's number."""


def draw_pipelines(path: Path, passes: pd.DataFrame, caption: str, slow: Collection[int] = ()) -> Path:
    """Draw ``path``, and the passes as a CSV file next to it.

    Args:
        path: of the picture.
        passes: ``panel``, ``stage``, ``kind``, ``micro_batch``, ``chunk``, ``begin_ms``, ``end_ms``.
        caption: what the passes are.
        slow: stages whose names are marked.
    """
    panels = list(dict.fromkeys(passes["panel"]))
    stages = sorted(set(passes["stage"]))
    with styled():
        page = new_page(len(panels) * (LANE_IN * len(stages) + 0.38) + 0.5, caption)
        places = page.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        most_ms = float(passes["end_ms"].max())
        for panel, axes in zip(panels, places, strict=True):
            mine = passes[passes["panel"] == panel]
            _draw_panel(axes, mine, most_ms)
            axes.set_yticks(stages, [f"stage {stage}" for stage in stages])
            for stage, label in zip(stages, axes.get_yticklabels(), strict=True):
                label.set_color(PLAN_COLOUR if stage in slow else INK)
            axes.set_ylim(stages[-1] + 0.55, stages[0] - 0.55)
            axes.set_title(f"{panel}: {mine['end_ms'].max():.0f} ms, bubbles {_idle_frac(mine):.0%}", fontsize=8.5)
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
        places[-1].set_xlabel("time (ms)")
        places[-1].set_xlim(0.0, most_ms)
        kinds = [kind for kind in COLOURS if kind in set(passes["kind"])]
        keys = [Patch(color=COLOURS[kind], label=NAMES[kind]) for kind in kinds]
        legend_above(page, [*keys, Patch(color=BUBBLE, label="bubble")])
        return save(page, path, passes.round(3))


def _draw_panel(axes: Axes, passes: pd.DataFrame, most_ms: float) -> None:
    for stage in set(passes["stage"]):
        axes.broken_barh([(0.0, passes["end_ms"].max())], (stage - HALF, 2 * HALF), facecolor=BUBBLE)
    for row in passes.itertuples():
        width_ms = row.end_ms - row.begin_ms
        bar = (row.begin_ms, width_ms)
        axes.broken_barh([bar], (row.stage - HALF, 2 * HALF), facecolor=COLOURS[row.kind], edgecolor="white", lw=0.4)
        if width_ms >= LEAST_FRAC * most_ms:
            ink = INK if row.kind == "forward" else "white"
            middle_ms = row.begin_ms + width_ms / 2
            axes.text(
                middle_ms, row.stage, str(row.micro_batch + 1), ha="center", va="center_baseline", size=5, color=ink
            )


def _idle_frac(passes: pd.DataFrame) -> float:
    """The part of all stages' time until the last pass ends in which they make no pass."""
    whole_ms = passes["end_ms"].max() * passes["stage"].nunique()
    return float(1.0 - (passes["end_ms"] - passes["begin_ms"]).sum() / whole_ms)
