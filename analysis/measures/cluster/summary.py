"""The numbers of one cluster's run: the content of its ``summary.json``."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures.cluster.checks import check_cluster
from analysis.measures.cluster.jobs import TIMES, gpus_used, in_system, makespan_s, running, window
from analysis.measures.cluster.labels import settings_of
from analysis.measures.cluster.straggling import Straggling, straggler_summary
from analysis.measures.warning_lines import Warned, in_summary
from analysis.records.cluster import Cluster


def summarise_cluster(
    cluster: Cluster, times: pd.DataFrame, found: Straggling | None, warned: Sequence[Warned] = ()
) -> dict[str, Any]:
    """Identity, end, times of the jobs, use of the GPUs, stragglers (null without records of jobs), checks. JSON-safe.

    Args:
        cluster: the record.
        times: :func:`analysis.measures.cluster.jobs.job_times` of it.
        found: :func:`analysis.measures.cluster.straggling.straggling` of it.
        warned: the warnings of its jobs.

    Returns:
        Statistics of times (``mean``, ``median``, ``p90``, ``p99``) are null where they are infinite, as with a job
        that never ended. ``little`` has the mean number of jobs over the record and its value by Little's law: arrivals
        per second times the mean seconds in the system.
    """
    start_s, end_s = window(times, cluster.end_s)
    jobs, used, busy = in_system(times), gpus_used(cluster), running(cluster)
    gpus, sound = int(cluster.machines["gpus"].sum()), check_cluster(cluster, times)
    length_s = cluster.end_s
    summary = {
        "schema": 1,
        "kind": "cluster",
        **{key: cluster.meta.get(key) for key in ("run_id", "runtime", "calibration", "seed")},
        "settings": settings_of(cluster.meta),
        "status": cluster.status,
        "torn": cluster.torn,
        "hosts": len(cluster.machines),
        "gpus": gpus,
        "jobs": len(times),
        "jobs_completed": int(times["completed"].sum()),
        "jobs_never_started": int(np.isinf(times["queue_s"]).sum()),
        "jobs_with_duration": int(times["duration_s"].notna().sum()),
        "jobs_by_status": {str(status): int(number) for status, number in times["status"].value_counts().items()},
        **{name: int(times[name].sum()) for name in ("preemptions", "granted", "refused")},
        "makespan_s": makespan_s(times),
        **{name: statistics(times[name]) for name in TIMES},
        "gpu_use_frac": used.mean(start_s, end_s) / gpus if gpus else nan,
        "gpu_seconds": used.integral(start_s, end_s),
        "queue_mean": jobs.mean(start_s, end_s) - busy.mean(start_s, end_s),
        "queue_max": queue_max(jobs, busy),
        "little": {
            "jobs_mean": jobs.mean(0.0, length_s),
            "rate_times_stay": float(times["in_system_s"].sum()) / length_s if length_s > 0 else nan,
        },
        **in_summary(warned),
        "stragglers": straggler_summary(found) if found else None,
        "integrity": {"ok": sound.ok, "problems": list(sound.problems), "unchecked": list(sound.unchecked)},
    }
    return dict(safe(summary))


def queue_max(jobs: Any, busy: Any) -> float:
    """Most jobs that wait at one time, of steps of those in the system and of those with GPUs."""
    t = np.union1d(jobs.t, busy.t)
    return float((jobs.at(t) - busy.at(t)).max(initial=0.0))


def statistics(values: pd.Series) -> dict[str, float]:
    """``mean``, ``median``, ``p90``, ``p99``; a quantile is the smallest value with that share at or below it.

    Infinite values count, so that a quantile is infinite where that many jobs never ended; NaN for no values.
    """
    known = np.sort(values.dropna().to_numpy(dtype="float64"))
    if not len(known):
        return dict.fromkeys(("mean", "median", "p90", "p99"), nan)
    at = {
        name: known[int(np.ceil(share * len(known))) - 1]
        for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99))
    }
    return {"mean": float(known.mean()), **{name: float(value) for name, value in at.items()}}


def safe(value: Any) -> Any:
    """The value as plain Python; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [safe(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not isfinite(value) else value
