"""Modes of synchronisation over time, above the windows of the plan."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures.page import new_page, save, styled
from analysis.figures.style import INK, PLAN_COLOUR
from analysis.figures.time_axis import time_axis
from analysis.files import natural
from analysis.measures.metrics import jct_s
from analysis.measures.modes import decided_s, modes_over_time
from analysis.records.load import Run

HEIGHT = 0.62
COLOURS = {"ssgd": "#0072B2", "bsp": "#0072B2", "asgd": "#D55E00", "asp": "#D55E00", "static": "#009E73"}
OTHER_COLOUR = "#CC79A7"
"""Colour of dynamic x-order."""
RANKS = ("ssgd", "bsp", "static", "dynamic", "asgd", "asp")
"""Kinds of modes from top to bottom: from one update of all workers to one of each."""
MOST_MARKS = 200
"""With more decisions than this their marks would be a bar."""


def draw_modes(path: Path, run: Run, about: str) -> Path:
    """Draw ``path`` (a PNG), and a CSV of the modes and windows next to it; the run's strategy must have modes."""
    modes, plan = modes_over_time(run), run.plan[run.plan["start_s"] < jct_s(run)]
    names = sorted(dict.fromkeys(modes["mode"]), key=rank)
    targets = sorted(dict.fromkeys(plan["target"]), key=natural)
    with styled():
        page = new_page(0.8 + 0.22 * (len(names) + len(targets)), about)
        heights = [len(names) + 0.4, *([len(targets) + 0.4] if targets else [])]
        grid = page.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        _draw_bars(grid[0], names, [(row.mode, row.start_s, row.end_s) for row in modes.itertuples()])
        if targets:
            _draw_bars(
                grid[1], targets, [(row.target, row.start_s, row.end_s) for row in plan.itertuples()], PLAN_COLOUR
            )
        marks = decided_s(run)
        if 0 < len(marks) <= MOST_MARKS:
            grid[0].plot(marks, [-0.62] * len(marks), "v", color=INK, markersize=3.5, clip_on=False, zorder=5)
            page.legend(handles=[_key()], loc="outside upper right")
        grid[0].set_xlim(0.0, max(jct_s(run), 1e-9))
        time_axis(grid[-1].xaxis, "time since the start of the job")
    shown = modes.rename(columns={"mode": "what"}).assign(is_mode=True)
    windows = plan[["start_s", "end_s", "target"]].rename(columns={"target": "what"}).assign(is_mode=False)
    return save(page, path, pd.concat([shown, windows], ignore_index=True) if len(windows) else shown)


def rank(mode: str) -> tuple[int, list[int]]:
    """Place of a mode's lane: by its kind, then larger updates first."""
    kind, *sizes = mode.split()
    place = RANKS.index(kind) if kind in RANKS else len(RANKS)
    return place, [-int(size) for size in sizes if size.isdigit()]


def _draw_bars(axes: Axes, lanes: list[str], bars: list[tuple[str, float, float]], colour: str | None = None) -> None:
    """A lane for each name, the first on top, with a bar for each time (name, start, end)."""
    for name, start_s, end_s in bars:
        own = colour or COLOURS.get(name.split(" ", 1)[0], OTHER_COLOUR)
        axes.barh(lanes.index(name), end_s - start_s, HEIGHT, start_s, color=own, linewidth=0)
    axes.set_yticks(range(len(lanes)), [lane.replace(":", " ") for lane in lanes])
    axes.set_ylim(max(len(lanes), 1) - 0.4, -0.7)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x")


def _key() -> Line2D:
    return Line2D([], [], color=INK, marker="v", markersize=3.5, linestyle="none", label="decision")
