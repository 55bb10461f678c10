"""Cluster runs compared: medians over seeds, and paired ratios job by job. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures.cluster.labels import cluster_labels
from analysis.measures.run_rows import few_seeds
from analysis.measures.small_samples import interval, interval_of_times, median
from analysis.measures.stats import interval as resampled
from analysis.measures.warning_lines import stored_warnings

MEASURED = {
    "jct_mean_s": ("jct_s", "mean"),
    "jct_median_s": ("jct_s", "median"),
    "jct_p99_s": ("jct_s", "p99"),
    "queue_mean_s": ("queue_s", "mean"),
    "slowdown_median": ("slowdown", "median"),
}
"""Columns of a run by (times, statistic) of its summary; null there is infinite here, if the run has jobs."""
TIMES = ("jct_mean_s", "jct_median_s", "jct_p99_s", "slowdown_median", "makespan_s")
"""Numbers of a run that differ by factors (a wait may be 0)."""
OTHERS = ("makespan_s", "gpu_use_frac", "queue_mean", "preemptions", "granted", "refused")
STRAGGLERS = ("iterations_with_straggler_frac", "jobs_above_half_frac", "delay_frac")
SAME_JOB = ("seed", "job", "submit_s", "gpus")
"""Jobs of two runs are paired if all of these are equal."""


def cluster_table(
    metas: Sequence[dict[str, Any]], summaries: Sequence[dict[str, Any]], paths: Sequence[object]
) -> pd.DataFrame:
    """One row per run: ``path``, ``label``, ``case``, ``seed``, ``status``, ``jobs``, ``jobs_completed`` and numbers.

    ``warnings`` come from the summary. The numbers are ``MEASURED`` (infinite where a job never ended), ``OTHERS`` and
    ``STRAGGLERS`` (NaN without records of the jobs).
    """
    labels, cases = cluster_labels(metas)
    rows = []
    for summary in summaries:
        row = {key: summary[key] for key in ("seed", "status", "jobs", "jobs_completed", *OTHERS)}
        row["makespan_s"] = inf if row["makespan_s"] is None else row["makespan_s"]
        for name, (times, statistic) in MEASURED.items():
            row[name] = _statistic_of(summary, times, statistic)
        row |= {name: (summary["stragglers"] or {}).get(name) for name in STRAGGLERS}
        row["warnings"] = summary.get("warnings") or []
        rows.append(row)
    numbers = (*MEASURED, *OTHERS, *STRAGGLERS)
    frame = pd.DataFrame(rows).astype(dict.fromkeys(numbers, "float64"))
    return frame.assign(path=[str(path) for path in paths], label=labels, case=cases)


def _statistic_of(summary: dict[str, Any], times: str, statistic: str) -> float:
    value = summary[times][statistic]
    if value is not None:
        return float(value)
    return inf if summary["jobs_with_duration" if times == "slowdown" else "jobs"] else nan


def paired_jobs(times: Sequence[pd.DataFrame], runs: pd.DataFrame, baseline: str, name: str = "jct_s") -> pd.DataFrame:
    """Ratios of jobs that ran in both: ``case``, ``label``, ``seed``, ``job``, ``ratio`` of ``name`` to the baseline's.

    ``times`` has the frame of :func:`analysis.measures.cluster.jobs.job_times` for every row of ``runs``. Infinite over
    finite stays infinite, finite over infinite is 0; a job that ended in neither has no ratio and is left out. Runs of
    the same seed and label are merged by their median.
    """
    jobs = pd.concat(
        [
            frame[["job", "submit_s", "gpus", name]].assign(case=row.case, label=row.label, seed=row.seed)
            for frame, row in zip(times, runs.itertuples(), strict=True)
        ],
        ignore_index=True,
    )
    keys = ["case", *SAME_JOB]
    jobs = jobs.groupby(["label", *keys], sort=False)[name].median().reset_index()
    base = jobs[jobs["label"] == baseline].set_index(keys)[name]
    others = jobs[jobs["label"] != baseline]
    theirs = base.reindex(pd.MultiIndex.from_frame(others[keys])).to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = others[name].to_numpy() / theirs
    frame = others[["case", "label", "seed", "job"]].assign(ratio=ratios)
    return frame[frame["ratio"].notna()].reset_index(drop=True)


def compare_clusters_table(runs: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """One row per case and label, in order of appearance.

    ``runs``, ``seeds``, ``jobs`` and ``jobs_completed`` (of all runs), ``warned`` (runs with warnings); for every
    number of a run its median over the runs, with ``_low`` and ``_high`` (:mod:`analysis.measures.small_samples`; NaN
    for one run); ``jct_ratio``, the median of the paired ratios (``pairs``), with ``_low`` and ``_high`` and
    ``ratio_over``: with several seeds it is the interval of the medians of each (``seeds``), with one seed the interval
    of a bootstrap over its jobs (``jobs``), which does not cover other workloads.
    """
    rows = []
    for (case, label), group in runs.groupby(["case", "label"], sort=False):
        row = {"case": case, "label": label, "runs": len(group), "seeds": group["seed"].nunique()}
        row |= {name: int(group[name].sum()) for name in ("jobs", "jobs_completed")}
        row["warned"] = int(group["warnings"].map(bool).sum())
        for name in (*MEASURED, *OTHERS, *STRAGGLERS):
            values = group[name].dropna()
            low, high = interval_of_times(values) if name in TIMES else interval(values)
            row |= {name: median(values), f"{name}_low": low, f"{name}_high": high}
        rows.append(row | _ratio(pairs[(pairs["case"] == case) & (pairs["label"] == label)]))
    return pd.DataFrame(rows)


def _ratio(pairs: pd.DataFrame) -> dict[str, Any]:
    by_seed = pairs.groupby("seed")["ratio"].median()
    several = len(by_seed) > 1
    values = by_seed if several else pairs["ratio"]
    low, high = interval_of_times(values) if several else resampled(values)
    found = {"jct_ratio": median(values), "jct_ratio_low": low, "jct_ratio_high": high, "pairs": len(pairs)}
    return found | {"ratio_over": "seeds" if several else "jobs"}


def cluster_warnings(runs: pd.DataFrame, times: Sequence[pd.DataFrame]) -> list[str]:
    """Reasons why a comparison is unfair or thin: other jobs for the same seed, jobs without an end, few seeds."""
    found = []
    for (case, seed), group in runs.groupby(["case", "seed"], sort=False):
        where = f" ({case})" if case else ""
        sets = {
            frozenset(times[place][["job", "submit_s", "gpus"]].itertuples(index=False, name=None))
            for place in group.index
        }
        if len(sets) > 1:
            found.append(
                f"seed {seed}{where}: {len(sets)} different sets of jobs; only jobs that are in both are paired"
            )
    for case, group in runs.groupby("case", sort=False):
        where = f"{case}: " if case else ""
        seeds = group.groupby("label", sort=False)["seed"].nunique()
        found += few_seeds(seeds.tolist(), f"{where}runs", where)
        if seeds.max() == 1 and len(group) > 1:
            found.append(f"{where}one seed: intervals are over its jobs and do not cover other workloads")
    for row in runs.itertuples():
        found += [f"{row.label} (seed {row.seed}), {one.text}" for one in stored_warnings({"warnings": row.warnings})]
    for row in runs[runs["jobs_completed"] < runs["jobs"]].itertuples():
        found.append(f"{row.path}: {row.jobs - row.jobs_completed} of {row.jobs} jobs did not complete ({row.status})")
    return found
