"""Timeline of a run: a lane per worker, the plan's windows behind it, updates above."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.figures.style import INK, PHASE_COLOURS, PLAN_COLOUR
from analysis.figures.time_axis import time_axis

HEIGHT = 0.6
"""Height of a lane whose neighbours are 1 apart."""


def draw_segments(axes: Axes, segments: pd.DataFrame) -> None:
    """Coloured pieces of the workers' lanes: ``worker``, ``phase``, ``start_s``, ``end_s``."""
    for phase, rows in segments.groupby("phase"):
        corners = [
            [(s, w - HEIGHT / 2), (s, w + HEIGHT / 2), (e, w + HEIGHT / 2), (e, w - HEIGHT / 2)]
            for w, s, e in zip(rows["worker"], rows["start_s"], rows["end_s"], strict=True)
        ]
        pieces = PolyCollection(corners, facecolors=PHASE_COLOURS[str(phase)], linewidths=0)
        axes.add_collection(pieces, autolim=False)


def draw_shares(axes: Axes, shares: pd.DataFrame) -> None:
    """Lanes filled with the share of every phase: ``worker``, ``phase``, ``start_s``, ``end_s``, ``share`` (0 to 1)."""
    for worker, rows in shares.groupby("worker"):
        wide = rows.pivot(index="start_s", columns="phase", values="share")
        wide = wide.reindex(columns=[*(p for p in PHASE_COLOURS if p != "wait"), "wait"], fill_value=0.0)
        edges = [*wide.index, float(rows["end_s"].max())]
        base = float(str(worker)) + HEIGHT / 2 - 0.0 * wide["wait"]
        for phase in wide:
            top = base - HEIGHT * wide[phase]
            axes.stairs(top, edges, baseline=base, fill=True, color=PHASE_COLOURS[phase], linewidth=0)
            base = top


def draw_windows(axes: Axes, windows: pd.DataFrame) -> None:
    """Injected windows: ``lane``, ``start_s``, ``end_s``, as a shade behind the lane and a bar above it."""
    for row in windows.itertuples():
        width = row.end_s - row.start_s
        axes.barh(row.lane, width, 0.94, row.start_s, color=_SHADE, linewidth=0, zorder=0.5)
        axes.barh(row.lane - 0.42, width, 0.07, row.start_s, color=PLAN_COLOUR, linewidth=0, zorder=0.6)


def draw_updates(axes: Axes, updates: pd.DataFrame, lane: float) -> None:
    """Updates (``t``) as ticks on a lane of their own."""
    axes.vlines(updates["t"], lane - 0.22, lane + 0.22, color=INK, linewidth=0.6)


RESTARTS: dict[str, dict[str, Any]] = {
    "Lost": {"marker": "x", "linestyle": "none", "markeredgewidth": 1.4, "label": "lost"},
    "Joined": {"marker": ">", "linestyle": "none", "label": "back"},
    "ServerLost": {"linestyle": ":", "linewidth": 1.0, "label": "server lost"},
    "Restored": {"linestyle": "-", "linewidth": 1.0, "label": "rolled back"},
    "Preempted": {"linestyle": "--", "linewidth": 1.0, "label": "preempted"},
    "Resumed": {"linestyle": "-.", "linewidth": 1.0, "label": "resumed"},
}


def draw_restarts(axes: Axes, restarts: pd.DataFrame, place: Mapping[int, float]) -> None:
    """``Lost`` and ``Joined`` on a worker's lane, events of the whole job across all lanes."""
    for row in restarts[restarts["what"].isin(list(RESTARTS))].itertuples():
        if row.role == "worker" and row.id not in place:
            continue
        x, y = ([row.t], [place[row.id]]) if row.role == "worker" else ([row.t] * 2, [-0.5, len(place) - 0.5])
        axes.plot(x, y, color="black", markersize=5, zorder=5, **RESTARTS[row.what])


def frame_lanes(axes: Axes, lanes: dict[float, str], start_s: float, end_s: float) -> None:
    """Set the lanes' names by height, the limits and the time axis."""
    axes.set_yticks(list(lanes), list(lanes.values()))
    axes.set_ylim(max(lanes) + 0.6, min(lanes) - 0.45)
    axes.set_xlim(start_s, end_s)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    time_axis(axes.xaxis, "time since the start of the job")


def lane_keys(windows: bool, restarts: Iterable[str]) -> list[Artist]:
    """Legend keys of the phases, of the plan's windows if any, and of the kinds of ``restarts`` that occur."""
    names = {"pull": "pull", "compute": "data, compute", "injected": "injected", "send": "send", "wait": "wait"}
    keys: list[Artist] = [Patch(color=PHASE_COLOURS[phase], label=name) for phase, name in names.items()]
    if windows:
        keys.append(Patch(facecolor=_SHADE, edgecolor=PLAN_COLOUR, label="planned"))
    there = set(restarts)
    return keys + [Line2D([], [], color="black", **look) for what, look in RESTARTS.items() if what in there]


_SHADE = "#fbe3d6"
