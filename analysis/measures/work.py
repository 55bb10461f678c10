"""Where the workers' time went: waiting, batch processing time, stragglers, waste, staleness. Pure.

Frames are ``iterations`` of :mod:`analysis.records.tables`. Arrivals without samples took no time and are ignored
throughout.
"""

from __future__ import annotations

from math import nan

import numpy as np
import pandas as pd

from analysis.records.schema import DURATIONS

STRAGGLER_FRAC = 0.2
"""STAR, section III: a worker straggles in an iteration that takes more than 20 % longer than the fastest worker's."""


def with_samples(iterations: pd.DataFrame) -> pd.DataFrame:
    """The iterations that processed samples."""
    return iterations[iterations["samples"] > 0]


def time_spent(iterations: pd.DataFrame) -> pd.DataFrame:
    """Seconds by worker (index) in ``wait_s``, ``pull_s``, ``data_s``, ``compute_s``, ``send_s``, ``injected_s``.

    ``injected_s`` is subtracted from ``compute_s``, so that the columns sum to the workers' time. Waiting before the
    job's start does not count.
    """
    rows = with_samples(iterations)
    parts = rows[["worker", *DURATIONS, "injected_s"]].copy()
    parts["wait_s"] = rows["wait_s"] - (-rows["start_s"]).clip(lower=0.0).clip(upper=rows["wait_s"])
    parts["compute_s"] -= parts["injected_s"]
    return parts.groupby("worker").sum()


def wait_frac(spent: pd.DataFrame) -> float:
    """Share of the workers' time (:func:`time_spent`) spent waiting."""
    total = float(spent.to_numpy().sum())
    return float(spent["wait_s"].sum()) / total if total > 0 else nan


def use_frac(spent: pd.DataFrame) -> pd.Series:
    """Busy / (busy + wait) by worker."""
    return 1.0 - spent["wait_s"] / spent.sum(axis="columns")


def quantiles(values: pd.Series) -> dict[str, float]:
    """``median``, ``p90`` and ``p99``; NaN for no values."""
    if not len(values):
        return {"median": nan, "p90": nan, "p99": nan}
    median, p90, p99 = np.quantile(values.to_numpy(dtype="float64"), [0.5, 0.9, 0.99])
    return {"median": float(median), "p90": float(p90), "p99": float(p99)}


def server_bpt_s(server_busy: pd.DataFrame) -> pd.Series:
    """Busy seconds per update of the servers, each update counted once (notes carry the mean over several)."""
    rows = server_busy[server_busy["updates"] > 0]
    return (rows["busy_s"] / rows["updates"]).repeat(rows["updates"])


def deviations(iterations: pd.DataFrame) -> pd.DataFrame:
    """``worker``, ``iteration``, ``iter_s``, ``deviation_frac`` = iter_s / the fastest worker's in that iteration - 1.

    Compares full batches only (partial ones at an epoch's end are not comparable), where at least two workers had one.
    """
    rows = with_samples(iterations)
    rows = rows.loc[rows["samples"] == rows["assigned_samples"], ["worker", "iteration", "iter_s"]]
    groups = rows.groupby("iteration")
    rows = rows[groups["worker"].transform("nunique") > 1]
    fastest = rows.groupby("iteration")["iter_s"].transform("min")
    return rows.assign(deviation_frac=rows["iter_s"] / fastest - 1.0)


def stragglers(deviating: pd.DataFrame) -> tuple[int, float]:
    """Number of (worker, iteration) pairs that straggled, and the share of iterations with a straggler."""
    slow = deviating["deviation_frac"] > STRAGGLER_FRAC
    per_iteration = slow.groupby(deviating["iteration"]).any()
    return int(slow.sum()), float(per_iteration.mean()) if len(per_iteration) else nan


def delay_frac(deviating: pd.DataFrame) -> float:
    """Return how far the slowest exceeds the mean, over all iterations: sum (max - mean) / sum mean of iter_s."""
    times = deviating.groupby("iteration")["iter_s"]
    mean = times.mean().sum()
    return float((times.max().sum() - mean) / mean) if mean > 0 else nan


def waste_frac(delay: float) -> float:
    """Share of the workers' time that a barrier would waste at this :func:`delay_frac`."""
    return delay / (1.0 + delay)


def staleness(iterations: pd.DataFrame) -> pd.Series:
    """Updates between reading the parameters and being applied, of every applied gradient."""
    return iterations.loc[iterations["fate"] == "applied", "staleness"].astype("int64")


def fates(iterations: pd.DataFrame) -> pd.DataFrame:
    """``grads`` and ``samples`` by fate (index); zero for fates that do not occur."""
    groups = iterations.groupby("fate")["samples"]
    frame = pd.DataFrame({"grads": groups.size(), "samples": groups.sum()})
    return frame.reindex(["applied", "dropped", "void", "open", "empty"], fill_value=0)
