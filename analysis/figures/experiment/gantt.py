"""A few iterations of every system as a Gantt chart, with the idle share of the workers' time (one seed)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.experiments.measures import idle_frac
from analysis.experiments.results import Results
from analysis.figures.names import shown_name
from analysis.figures.page import legend_above, new_page, save, styled
from analysis.figures.time_axis import time_axis
from analysis.figures.timeline import draw_segments, draw_updates, frame_lanes, lane_keys
from analysis.measures.metrics import jct_s
from analysis.measures.segments import segments
from analysis.records.load import Run
from analysis.records.members import numbers_of
from analysis.records.provenance import caption

ITERATIONS = 4


def draw(path: Path, results: Results) -> Path:
    """Draw ``path``; writes its numbers as a CSV file next to it."""
    by, shown = results.spec.figure.by, []
    records = list(results.records.values())
    num_workers = max(len(numbers_of(run, "worker")) for _, run in records)
    with styled():
        page = new_page((0.75 + 0.2 * num_workers) * len(records) + 0.3, caption(results.metas))
        grid = np.atleast_1d(page.subplots(len(records), 1, sharex=True))
        width = max(window(run)[1] for _, run in records)
        for axes, (cell, run) in zip(grid, records, strict=True):
            start, _ = window(run)
            pieces = segments(run.tables.iterations)
            inside = pieces[(pieces["end_s"] > start) & (pieces["start_s"] < start + width)]
            inside = inside.assign(start_s=inside["start_s"] - start, end_s=inside["end_s"] - start)
            draw_segments(axes, inside)
            updates = run.tables.updates.assign(t=run.tables.updates["t"] - start)
            draw_updates(axes, updates[updates["t"].between(0.0, width)], lane=-1.0)
            lanes = {float(worker): f"worker {worker}" for worker in numbers_of(run, "worker")}
            frame_lanes(axes, {-1.0: "updates", **lanes}, 0.0, width)
            name = shown_name(cell.levels[by], results.spec.figure.names)
            axes.set_title(f"{name}: {idle_frac(run):.0%} idle, an update every {period(run):.3g} s")
            shown.append(inside.assign(**{by: cell.levels[by]}))
        for axes in grid[:-1]:
            axes.set_xlabel("")
        time_axis(grid[-1].xaxis, "time since the first iteration shown")
        legend_above(page, lane_keys(False, []))
    return save(page, path, pd.concat(shown, ignore_index=True))


def period(run: Run) -> float:
    """Median seconds between two updates, in the second half of the run."""
    updates = run.tables.updates
    later = updates[updates["t"] > jct_s(run) / 2]["t"]
    return float(later.diff().median()) if len(later) > 1 else jct_s(run)


def window(run: Run) -> tuple[float, float]:
    """(start, width) of ``ITERATIONS`` updates, after adaptation has settled (three quarters into the run)."""
    updates = run.tables.updates["t"]
    late = updates[updates > 0.75 * jct_s(run)]
    start = float(late.iloc[0]) if len(late) else 0.0
    return start, ITERATIONS * period(run)
