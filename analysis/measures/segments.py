"""The workers' time as segments, for the Gantt chart and the trace."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.measures.work import with_samples

PHASES = ("wait", "pull", "compute", "injected", "send")
ABOUT = ("incarnation", "iteration", "grad", "version_read", "samples", "fate")
"""Columns that describe the iteration of a segment."""


def segments(iterations: pd.DataFrame) -> pd.DataFrame:
    """``phase``, ``start_s``, ``end_s`` of every phase that took time, with ``worker`` and the columns of ``ABOUT``.

    Phases are laid out backwards from the arrival, since workers report durations only. ``compute`` is fetching the
    data and computing, ``injected`` the part of it that was added. A segment never starts before the worker's last
    arrival.
    """
    rows = with_samples(iterations).sort_values(["worker", "t"], kind="stable")
    own_s = rows["data_s"] + rows["compute_s"] - rows["injected_s"]
    durations = (rows["wait_s"], rows["pull_s"], own_s, rows["injected_s"], rows["send_s"])
    floor = rows.groupby("worker")["t"].shift(fill_value=0.0).to_numpy()
    end, frames = rows["t"].to_numpy(), []
    for phase, duration in reversed(list(zip(PHASES, durations, strict=True))):
        start = np.maximum(end - duration.to_numpy(), floor)
        frames.append(rows[["worker", *ABOUT]].assign(phase=phase, start_s=start, end_s=end))
        end = start
    frame = pd.concat(frames, ignore_index=True)
    frame = frame[frame["end_s"] > frame["start_s"]]
    return frame.sort_values(["worker", "start_s"], kind="stable", ignore_index=True)


def shares(segmented: pd.DataFrame, end_s: float, bins: int) -> pd.DataFrame:
    """``worker``, ``phase``, ``start_s``, ``end_s``, ``share``: the fraction of every time bin spent in each phase."""
    edges = np.linspace(0.0, end_s, bins + 1)
    frames = []
    for (worker, phase), rows in segmented.groupby(["worker", "phase"], sort=True):
        bounds = rows[["start_s", "end_s"]].to_numpy().ravel()
        spent = np.column_stack([np.zeros(len(rows)), rows["end_s"] - rows["start_s"]]).ravel().cumsum()
        share = np.diff(np.interp(edges, bounds, spent, left=0.0)) / (edges[1] - edges[0])
        frames.append(
            pd.DataFrame({"worker": worker, "phase": phase, "start_s": edges[:-1], "end_s": edges[1:], "share": share})
        )
    columns = ["worker", "phase", "start_s", "end_s", "share"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def bins(segmented: pd.DataFrame, end_s: float, most: int = 200) -> int:
    """Number of time bins such that each holds a few iterations even if they are slow; finer ones would flicker."""
    lengths = segmented.groupby(["worker", "iteration"])["end_s"].max().groupby("worker").diff()
    slow_s = float(lengths.quantile(0.95)) if lengths.notna().any() else 0.0
    return max(1, min(most, int(end_s / (3.0 * slow_s)))) if slow_s > 0 else most


def excerpt(iterations: pd.DataFrame, plan: pd.DataFrame, end_s: float, count: int = 24) -> tuple[float, float]:
    """A window (seconds) of about ``count`` iterations around the start of the first disturbance that had an effect."""
    rows = with_samples(iterations)
    if not len(rows):
        return 0.0, end_s
    per_iteration = (rows["t"] - rows["start_s"]).median()
    width = min(end_s, count * float(per_iteration))
    felt = rows.loc[rows["injected_s"] > 0, "issued_s"]
    first = float(felt.min()) if len(felt) else float(plan["start_s"].min()) if len(plan) else 0.0
    start = min(max(0.0, first - width / 4), end_s - width)
    return start, start + width
