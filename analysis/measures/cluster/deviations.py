"""Stragglers of one job as STAR's measurement study defines them (sections II and III-A of the paper). Pure.

T_i is worker i's time for an iteration: loading, receiving parameters with the wait for the servers, computing and
sending; waiting at barriers is left out. Its deviation is d_i = (T_i - min_k T_k) / min_k T_k over the workers of the
same iteration, and it straggles if d_i > 20 %. An iteration is compared where at least two workers had a full batch.

Workers are compared at equal work (beyond the paper, whose batches are equal): where batches differ, loading and
computing count as if each had the mean batch. So who is as fast as the others and has more to do does not straggle.
"""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures.work import STRAGGLER_FRAC

PARTS = ("processor_s", "injected_s", "link_s", "servers_s")
"""The parts of T: data and computing; the time that a disturbance added; the worker's link; waiting for servers."""
STEPS = {"data": ("data_s",), "compute": ("compute_s",), "communication": ("pull_s", "send_s")}
"""The parts for which the study's Fig. 1(b) to (d) gives deviations of their own."""


def compare_workers(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per worker and comparable iteration, in the order of the iterations.

    Args:
        rows: iterations of one job (:func:`analysis.records.job_rows.read_job_rows`).

    Returns:
        ``worker``, ``iteration``, ``t`` (arrival, the job's clock), ``time_s`` (T), the parts of T in ``PARTS``
        (without a recorded ``recv_s`` all of the pull counts as ``link_s``), ``fastest_s``, ``deviation_frac`` and the
        durations of ``STEPS``. If a worker repeated an iteration, its last attempt counts. All at equal work.
    """
    full = rows[(rows["samples"] > 0) & (rows["samples"] == rows["assigned_samples"])]
    full = full.sort_values(["iteration", "worker", "t"], kind="stable")
    full = full[~full.duplicated(["iteration", "worker"], keep="last")]
    starts, sizes = _iterations(full)
    full = _at_equal_work(full[np.repeat(sizes > 1, sizes)].reset_index(drop=True))
    recv_s = full["recv_s"].fillna(full["pull_s"]).clip(upper=full["pull_s"])
    time_s = full["data_s"] + full["pull_s"] + full["compute_s"] + full["send_s"]
    starts, sizes = _iterations(full)
    fastest_s = np.repeat(np.minimum.reduceat(time_s.to_numpy(), starts) if len(starts) else np.empty(0), sizes)
    keep = fastest_s > 0.0
    columns = {
        **{name: full[name] for name in ("worker", "iteration", "t")},
        **{name: full[name] for names in STEPS.values() for name in names},
        "time_s": time_s,
        "processor_s": full["data_s"] + full["compute_s"] - full["injected_s"],
        "injected_s": full["injected_s"],
        "link_s": recv_s + full["send_s"],
        "servers_s": full["pull_s"] - recv_s,
        "fastest_s": fastest_s,
        "deviation_frac": time_s / np.where(keep, fastest_s, 1.0) - 1.0,
    }
    return pd.DataFrame(columns)[keep].reset_index(drop=True)


def _at_equal_work(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with loading and computing in proportion to their iteration's mean batch; a sleep stays as it is."""
    samples = rows["samples"].astype("float64")
    factor = samples.groupby(rows["iteration"]).transform("mean") / samples
    slept_s = rows["injected_s"]
    return rows.assign(data_s=rows["data_s"] * factor, compute_s=(rows["compute_s"] - slept_s) * factor + slept_s)


def _iterations(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Position of the first row of each iteration, and its number of rows; rows are in the order of iterations."""
    iteration = rows["iteration"].to_numpy()
    starts = np.flatnonzero(np.diff(iteration, prepend=iteration[:1] - 1))
    return starts, np.diff(starts, append=len(iteration))


def slowest_of(rows: pd.DataFrame) -> np.ndarray:
    """The deviation of the slowest worker in every iteration, in their order."""
    return np.asarray(np.maximum.reduceat(rows["deviation_frac"].to_numpy(), _iterations(rows)[0]))


def is_slow(rows: pd.DataFrame) -> pd.Series:
    """Whether the worker of each row straggled."""
    return rows["deviation_frac"] > STRAGGLER_FRAC


def job_stragglers(rows: pd.DataFrame) -> dict[str, Any]:
    """How much a job has straggled.

    Args:
        rows: what :func:`compare_workers` returns, of at least one iteration.

    Returns:
        ``workers``, ``compared`` (iterations); ``straggler_frac``: share of iterations with a straggler, and the same
        by the durations of each of ``STEPS`` alone (``data_straggler_frac`` ...; iterations whose fastest worker
        needed no time for it are not counted, NaN without any); ``worker_straggler_frac``: share of (worker,
        iteration) pairs that straggle; ``deviation_median_frac`` and ``deviation_p99_frac`` of the iterations (of the
        slowest worker); ``mean_s`` and ``slowest_s``: sums over the iterations of the workers' mean and of the
        slowest; ``delay_frac`` = slowest_s / mean_s - 1, by how much stragglers lengthen a synchronous job compared
        with iterations at the mean, and ``waste_frac``, the share of the workers' time lost by it;
        ``communication_frac``: share of T; ``communication_half_frac``: share of (worker, iteration) pairs in which it
        is at least half of T; ``rise_frac`` and ``fall_frac``: share of consecutive iterations of a
        worker in which T rose, or fell, by more than 20 %.
    """
    starts, sizes = _iterations(rows)
    slowest, time_s = slowest_of(rows), rows["time_s"].to_numpy()
    mean_s = float((np.add.reduceat(time_s, starts) / sizes).sum())
    slowest_s = float(np.maximum.reduceat(time_s, starts).sum())
    changes = changes_of(rows)
    communication_s = rows["pull_s"] + rows["send_s"]
    return {
        "workers": int(rows["worker"].nunique()),
        "compared": len(slowest),
        "straggler_frac": float((slowest > STRAGGLER_FRAC).mean()),
        **{f"{name}_straggler_frac": _step_frac(rows, name) for name in STEPS},
        "worker_straggler_frac": float(is_slow(rows).mean()),
        "deviation_median_frac": float(np.median(slowest)),
        "deviation_p99_frac": float(np.quantile(slowest, 0.99)),
        "mean_s": mean_s,
        "slowest_s": slowest_s,
        "delay_frac": slowest_s / mean_s - 1.0,
        "waste_frac": 1.0 - mean_s / slowest_s,
        "communication_frac": float(communication_s.sum() / rows["time_s"].sum()),
        "communication_half_frac": float((communication_s >= rows["time_s"] / 2.0).mean()),
        "rise_frac": float((changes > STRAGGLER_FRAC).mean()) if len(changes) else nan,
        "fall_frac": float((changes < -STRAGGLER_FRAC).mean()) if len(changes) else nan,
    }


def changes_of(rows: pd.DataFrame) -> np.ndarray:
    """T relative to the same worker's previous iteration, minus 1."""
    order = np.lexsort((rows["iteration"].to_numpy(), rows["worker"].to_numpy()))
    time_s, worker = rows["time_s"].to_numpy()[order], rows["worker"].to_numpy()[order]
    return np.asarray((time_s[1:] / time_s[:-1] - 1.0)[worker[1:] == worker[:-1]])


def step_deviations(rows: pd.DataFrame, name: str) -> np.ndarray:
    """The deviation of the slowest worker by one of ``STEPS``, by iteration in which the fastest needed time for it."""
    seconds = sum(rows[column].to_numpy() for column in STEPS[name])
    starts, _ = _iterations(rows)
    fastest, slowest = np.minimum.reduceat(seconds, starts), np.maximum.reduceat(seconds, starts)
    there = fastest > 0.0
    return np.asarray(slowest[there] / fastest[there] - 1.0)


def _step_frac(rows: pd.DataFrame, name: str) -> float:
    """Share of iterations with a straggler by one step's durations."""
    found = step_deviations(rows, name)
    return float((found > STRAGGLER_FRAC).mean()) if len(found) else nan
