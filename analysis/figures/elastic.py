"""A run whose nodes change, over time: nodes, cores, throughput, use of the servers, and the stall of each switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import FAINT, INK
from analysis.figures.time_axis import time_axis
from analysis.measures import elastic
from analysis.measures.metrics import jct_s
from analysis.records.load import Run

WORKERS, SERVERS, CORES, RATE, STALL = "#0072B2", "#D55E00", "#555555", "#009E73", "#B00020"
SERVER_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#332288", "#117733", "#882255")
BINS = 90
NEAR_FRAC = 0.04
"""Marks of decisions that are closer than this part of the page stand above each other."""
LEVEL_PT, MOST_LEVELS = 9, 5
"""Distance of marks above each other, in points, and how many may be."""
TOGETHER, TEXT_HEIGHT = 0.03, 0.13
"""Parts of a server's cores: lines that end within the first share a text; the second is the least distance of two."""
Panel = Callable[[Axes, Run], pd.DataFrame]
Below = Callable[[Axes], None]
NOTHING = pd.DataFrame()


def draw_elastic(
    path: Path,
    runs: Sequence[tuple[str, Run]],
    about: str,
    below: Below | None = None,
    bars: pd.DataFrame = NOTHING,
) -> Path:
    """Draw ``path``, a column per run with its title, and a CSV of all that it shows next to it.

    All columns have the same time axis (:func:`common_end_s`). ``below`` draws one more panel, of ``bars``.
    """
    heights_in = [1.15 * sum(HEIGHTS) + 0.3, *([] if below is None else [0.75 + 0.26 * len(bars)])]
    with styled():
        page = new_page(sum(heights_in), about)
        above, *under = page.subfigures(len(heights_in), 1, squeeze=False, height_ratios=heights_in)[:, 0]
        if below is not None:
            below(under[0].subplots())
        grid = above.subplots(
            len(PANELS), len(runs), sharex="col", squeeze=False, gridspec_kw={"height_ratios": list(HEIGHTS)}
        )
        shown, levels, end_s = [], 2, common_end_s([jct_s(run) for _, run in runs])
        for column, (title, run) in zip(grid.T, runs, strict=True):
            marks = elastic.decisions(run)
            for axes, (name, panel) in zip(column, PANELS.items(), strict=True):
                shown.append(panel(axes, run).assign(run=title, panel=name))
                frame_panel(axes, end_s, marks)
            levels = max(levels, number_marks(column[0], end_s * len(runs), marks))
            time_axis(column[-1].xaxis, "time since the start of the job" if len(runs) < 3 else "time")
        for axes, (title, _) in zip(grid[0], runs, strict=True):
            axes.set_title(title, pad=8 + LEVEL_PT * levels)
        for row, (name, limits) in zip(grid, LABELS.items(), strict=True):
            row[0].set_ylabel(name)
            top = max(axes.get_ylim()[1] for axes in row)
            for axes in row:
                axes.set_ylim(0.0, top if limits is None else limits)
        above.align_ylabels(grid[:, 0])
        legend_above(page, keys())
    return save(page, path, pd.concat([*shown, *([bars.assign(panel="bars")] if len(bars) else [])], ignore_index=True))


def common_end_s(ends_s: Sequence[float]) -> float:
    """Where all time axes end: with the longest run, or of three and more with the second longest.

    One run that takes much longer would hide what the others do; a bar has its time.
    """
    return sorted(ends_s)[-2 if len(ends_s) > 2 else -1]


def draw_nodes(axes: Axes, run: Run) -> pd.DataFrame:
    """Steps of the numbers of workers and of servers that hold parameters."""
    frame = _to_the_end(elastic.nodes_over_time(run), run)
    for column, colour in (("workers", WORKERS), ("servers", SERVERS)):
        axes.step(frame["t"], frame[column], where="post", color=colour)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    return frame[["t", "workers", "servers"]].melt("t", var_name="series")


def draw_cores(axes: Axes, run: Run) -> pd.DataFrame:
    """Steps of the cores of all nodes."""
    frame = _to_the_end(elastic.nodes_over_time(run), run)
    axes.step(frame["t"], frame["cores"], where="post", color=CORES)
    return frame[["t", "cores"]].melt("t", var_name="series")


def draw_rate(axes: Axes, run: Run) -> pd.DataFrame:
    """Updates per second, and a band from the last update before to the first after every switch."""
    frame = elastic.steps_over_time(run, max(1.0, jct_s(run) / BINS))
    axes.plot(frame["t"], frame["steps_per_s"], color=RATE)
    for switch in elastic.switches(run).itertuples():
        axes.axvspan(switch.t, switch.t + switch.moving_s, color=STALL, alpha=0.18, linewidth=0)
    return frame.melt("t", var_name="series")


def draw_server_use(axes: Axes, run: Run) -> pd.DataFrame:
    """The use of every server, as a part of its cores."""
    use = elastic.server_use(run).dropna(subset="use_frac")
    ends = []
    for index, (server, rows) in enumerate(use.groupby("server")):
        colour = SERVER_COLOURS[index % len(SERVER_COLOURS)]
        axes.plot(rows["t"], rows["use_frac"], color=colour, linewidth=0.9)
        ends.append((float(rows["t"].iloc[-1]), float(rows["use_frac"].iloc[-1]), int(str(server)), colour))
    name_lines(axes, ends)
    axes.set_yticks([0.0, 0.5, 1.0])
    values = use.assign(series="server " + use["server"].astype("str"), value=use["use_frac"])
    return values[["t", "series", "value"]]


def name_lines(axes: Axes, ends: Sequence[tuple[float, float, int, str]]) -> None:
    """Numbers of servers where their lines end: ``(t, value, server, colour)``; together: one text."""
    groups: dict[tuple[float, int], list[tuple[float, int, str]]] = {}
    for t, value, server, colour in ends:
        groups.setdefault((t, round(value / TOGETHER)), []).append((value, server, colour))
    end_s = max((t for t, _, _, _ in ends), default=0.0)
    taken: dict[float, float] = {}
    for t, place in sorted(groups, key=lambda key: (key[0], -key[1] if key[0] == end_s else key[1])):
        group = groups[t, place]
        height, step = group[0][0], -TEXT_HEIGHT if t == end_s else TEXT_HEIGHT
        if t in taken:  # at the end of the run downwards below the lines, elsewhere upwards above them
            height = min(height, taken[t] + step) if step < 0 else max(height, taken[t] + step)
        taken[t] = height
        axes.annotate(
            ranges([server for _, server, _ in group]),
            (t, height),
            (0, -2.5 if step < 0 else 1.5),
            textcoords="offset points",
            ha="right",
            va="top" if step < 0 else "bottom",
            fontsize=6,
            color=group[0][2] if len(group) == 1 else INK,
            bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.4},
        )


def ranges(numbers: Sequence[int]) -> str:
    """Numbers as a reader writes them, with a dash for three or more in a row: ``0, 1, 4-7``."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(
        ", ".join(map(str, part)) if len(part) < 3 else f"{part[0]}\N{EN DASH}{part[-1]}" for part in parts
    )


def draw_stalls(axes: Axes, run: Run) -> pd.DataFrame:
    """A bar for every switch: seconds that parameters moved, and pale and as a number the time without an update."""
    frame = elastic.switches(run)
    frame["stall_s"] = frame["stall_s"].fillna(frame["moving_s"])
    axes.vlines(frame["t"], 0.0, frame["stall_s"], color=STALL, linewidth=2.2, alpha=0.35)
    axes.vlines(frame["t"], 0.0, frame["moving_s"], color=STALL, linewidth=2.2)
    for row in frame.itertuples():
        axes.annotate(
            f"{row.stall_s:.3g}", (row.t, row.stall_s), (0, 2), textcoords="offset points", ha="center", fontsize=6.5
        )
    axes.set_ylim(0.0, 1.45 * float(frame["stall_s"].max()) if len(frame) else 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    return frame.melt("t", var_name="series")


PANELS: dict[str, Panel] = {
    "nodes": draw_nodes,
    "cores": draw_cores,
    "steps": draw_rate,
    "use": draw_server_use,
    "stall": draw_stalls,
}
HEIGHTS = (1.0, 0.7, 1.0, 0.9, 0.6)
LABELS: dict[str, float | None] = {
    "nodes": None,
    "cores": None,
    "steps per s": None,
    "server use": 1.2,
    "stall (s)": None,
}
"""The label of each panel and the upper end of its axis; None: chosen by the data."""


def _to_the_end(frame: pd.DataFrame, run: Run) -> pd.DataFrame:
    """The last state lasts to the end of the run."""
    return pd.concat([frame, frame.iloc[[-1]].assign(t=jct_s(run))], ignore_index=True)


def frame_panel(axes: Axes, end_s: float, marks: pd.DataFrame) -> None:
    """The same times in all panels, with a line at every decision that changes something."""
    axes.set_xlim(0.0, max(end_s, 1e-9))
    axes.grid(visible=True, axis="y")
    for mark in marks[marks["number"] > 0].itertuples():
        axes.axvline(mark.t, color=FAINT, linewidth=0.7, linestyle=":", zorder=0)


def number_marks(axes: Axes, width_s: float, marks: pd.DataFrame) -> int:
    """The numbers of the decisions above the first panel, hollow if denied; the page is ``width_s`` wide.

    Returns on how many levels they stand: each is on the lowest one where it has room.
    """
    last = [-np.inf] * MOST_LEVELS
    for mark in marks[marks["number"] > 0].itertuples():
        free = [place for place, t in enumerate(last) if mark.t - t >= NEAR_FRAC * width_s]
        level = free[0] if free else last.index(min(last))
        denied = mark.outcome == "denied"
        axes.annotate(
            str(mark.number),
            (mark.t, 1.0),
            (0, 6 + LEVEL_PT * level),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=6,
            color=INK if denied else "white",
            bbox={
                "boxstyle": "circle,pad=0.22",
                "facecolor": "white" if denied else INK,
                "edgecolor": INK,
                "linewidth": 0.6,
            },
        )
        last[level] = mark.t
    return int(np.isfinite(last).sum())


def keys() -> list[Line2D]:
    """Legend entries of nodes, moves and decisions."""
    lines = [Line2D([], [], color=colour, label=name) for name, colour in (("workers", WORKERS), ("servers", SERVERS))]
    lines.append(Line2D([], [], color=STALL, linewidth=4, alpha=0.3, label="parameters move"))
    mark = Line2D(
        [], [], color=FAINT, linestyle=":", marker="o", markersize=6, markerfacecolor=INK, markeredgecolor=INK
    )
    mark.set_label("decision (numbered)")
    return [*lines, mark]
