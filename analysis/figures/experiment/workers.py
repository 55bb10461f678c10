"""The effect of a strategy on single workers over time: assigned batch and batch processing time (one seed)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.experiments.results import Results
from analysis.figures.names import shown_name
from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.style import FAINT
from analysis.figures.time_axis import time_axis
from analysis.measures import work
from analysis.measures.metrics import jct_s
from analysis.records.load import Run
from analysis.records.provenance import caption

BINS = 120
RESTARTED, LATER, ADJUSTED, OTHERS = "#D55E00", "#E6A96B", "#0072B2", "#c4c4c4"
WHAT = {"batch": "assigned batch (samples)", "bpt_s": "batch processing time (s)"}


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    frames = [(cell, run, over_time(run)) for cell, run in results.records.values()]
    shown = [frame.assign(**cell.levels) for cell, _, frame in frames]
    with styled():
        page = new_page(2.1 * len(WHAT) * len(frames), f"seed {results.spec.seeds[0]}: {caption(results.metas)}")
        grid = np.atleast_1d(page.subplots(len(WHAT) * len(frames), 1, sharex="col"))
        for index, (cell, run, frame) in enumerate(frames):
            kinds = roles(run, frame)
            title = ", ".join(shown_name(level, results.spec.figure.names) for level in cell.levels.values())
            for axes, what in zip(grid[index * len(WHAT) :], WHAT, strict=False):
                draw_workers(axes, frame, what, kinds, events(run))
                axes.set_title(title if what == "batch" else "")
        time_axis(grid[-1].xaxis, "time since the start of the job")
        legend_above(page, keys())
    return save(page, path, pd.concat(shown, ignore_index=True))


def over_time(run: Run, bins: int = BINS) -> pd.DataFrame:
    """``worker``, ``t`` (s), ``batch`` (assigned samples), ``bpt_s``: means in time bins, gaps while it was away."""
    rows = work.with_samples(run.tables.iterations)
    edges = np.linspace(0.0, jct_s(run), bins + 1)
    place = np.clip(np.digitize(rows["t"], edges) - 1, 0, bins - 1)
    middle = (edges[1:] + edges[:-1]) / 2
    groups = rows.groupby([rows["worker"], pd.Series(place, index=rows.index, name="bin")])
    frame = pd.DataFrame({"batch": groups["assigned_samples"].mean(), "bpt_s": groups["bpt_s"].mean()})
    whole = pd.MultiIndex.from_product([sorted(rows["worker"].unique()), range(bins)], names=["worker", "bin"])
    away = away_bins(run, edges)
    frame = frame.reindex(whole).reset_index()
    # a bin between two slow iterations may be empty: leave a gap only where the worker was away
    filled = frame.groupby("worker")[["batch", "bpt_s"]].ffill()
    gone = pd.Series([(worker, place) in away for worker, place in zip(frame["worker"], frame["bin"], strict=True)])
    frame[["batch", "bpt_s"]] = filled.mask(gone)
    return frame.assign(t=middle[frame["bin"]]).drop(columns="bin")


def away_bins(run: Run, edges: np.ndarray) -> set[tuple[int, int]]:
    """(worker, bin) pairs in which a worker was lost and not yet back."""
    rows, gone, found = run.tables.restarts, {}, set()
    end = float(edges[-1])
    for row in rows[rows["role"] == "worker"].itertuples():
        if row.what == "Lost":
            gone[row.id] = row.t
        elif row.what == "Joined" and row.id in gone:
            found |= _between(row.id, gone.pop(row.id), row.t, edges)
    for worker, since in gone.items():
        found |= _between(worker, since, end, edges)
    return found


def _between(worker: int, start: float, end: float, edges: np.ndarray) -> set[tuple[int, int]]:
    inside = np.flatnonzero((edges[:-1] >= start) & (edges[1:] <= end))
    return {(worker, int(place)) for place in inside}


def roles(run: Run, frame: pd.DataFrame) -> dict[int, str]:
    """Colour by worker: restarted first, restarted later, the one with the largest batch cut, the others."""
    rows = run.tables.restarts
    restarted = list(dict.fromkeys(map(int, rows.loc[(rows["what"] == "Lost") & (rows["role"] == "worker"), "id"])))
    least = frame[~frame["worker"].isin(restarted)].groupby("worker")["batch"].min()
    colours = dict.fromkeys(map(int, frame["worker"].unique()), OTHERS)
    if len(least) and least.min() < 0.9 * least.max():
        colours[int(least.idxmin())] = ADJUSTED
    return colours | dict.fromkeys(restarted, LATER) | dict.fromkeys(restarted[:1], RESTARTED)


def events(run: Run) -> pd.DataFrame:
    """``t`` and ``what`` of losses and returns."""
    rows = run.tables.restarts
    return rows.loc[rows["what"].isin(["Lost", "Joined", "ServerLost", "Restored"]), ["t", "what"]]


def draw_workers(axes: Axes, frame: pd.DataFrame, what: str, colours: dict[int, str], marks: pd.DataFrame) -> None:
    """One line per worker: ``worker``, ``t``, and the column ``what``; ``marks`` are ``t`` and ``what`` of restarts."""
    order = sorted(colours, key=lambda worker: colours[worker] != OTHERS)
    for worker in order:
        mine, colour = frame[frame["worker"] == worker], colours[worker]
        axes.plot(mine["t"], mine[what], color=colour, linewidth=0.8 if colour == OTHERS else 1.5)
    for mark in marks.itertuples():
        style = ":" if mark.what in ("Lost", "ServerLost") else "-"
        axes.axvline(mark.t, color=FAINT, linewidth=0.8, linestyle=style, zorder=0)
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel(WHAT[what])
    axes.grid(visible=True, axis="y")


def keys() -> list[Line2D]:
    """Legend entries of the workers' roles and of restarts."""
    named = (("restarted first", RESTARTED), ("later", LATER), ("most adjusted", ADJUSTED), ("others", OTHERS))
    lines = [Line2D([], [], color=colour, label=name) for name, colour in named]
    return [*lines, Line2D([], [], color=FAINT, linestyle=":", linewidth=0.8, label="killed (dotted), back (solid)")]
