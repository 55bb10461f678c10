"""Comparisons across seeds. A run that never finished counts as infinite; it is never left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures.run_rows import (
    CELL,
    MEANS,
    TIMES,
    Rows,
    group_rows,
    largest,
    numbers,
    of_cell,
    paired_ratios,
    run_rows,
    seeds,
    warned_counts,
)
from analysis.measures.small_samples import interval_of_times, median

CONFIDENCE = 0.95
RESAMPLES = 2000


def run_table(
    metas: Sequence[dict[str, Any]], summaries: Sequence[dict[str, Any]], paths: Sequence[object]
) -> pd.DataFrame:
    """The :func:`analysis.measures.run_rows.run_rows` as a frame."""
    return pd.DataFrame(run_rows(metas, summaries, paths))


def compare_runs(runs: Rows, baseline: str | None = None) -> pd.DataFrame:
    """One row per case and strategy of :func:`analysis.measures.run_rows.run_rows`, in order of appearance.

    ``runs``, ``seeds`` (numbers); ``metric``, ``higher_is_better``, ``target``; for ``jct`` and ``tta`` each: ``_s``
    ``_low_s``, ``_high_s``, ``_missed``, ``_ratio``, ``_ratio_low``, ``_ratio_high``, ``_pairs`` (seeds compared);
    ``tta_step_s`` (the largest); ``warned`` and ``warned_pairs``, how many runs have warnings, and how many pairs with
    one that has; medians of ``MEANS``, but the largest ``staleness_max``. Intervals are computed as for verdicts
    (:func:`analysis.measures.small_samples.interval_of_times`).
    """
    rows = []
    for (case, strategy), group in group_rows(runs, *CELL).items():
        row = {"case": case, "strategy": strategy, "runs": len(group), "seeds": seeds(group)}
        row |= {name: group[0][name] for name in ("metric", "higher_is_better", "target")}
        other = of_cell(runs, case, baseline)
        for name in TIMES:
            row |= _time(name.removesuffix("_s"), group, other)
        row |= {"tta_step_s": largest(numbers(group, "tta_step_s"))} | warned_counts(group, other)
        row |= {name: median(numbers(group, name)) for name in MEANS}
        row["staleness_max"] = largest(numbers(group, "staleness_max"))
        rows.append(row)
    return pd.DataFrame(rows)


def time_shares(runs: pd.DataFrame) -> pd.DataFrame:
    """``case``, ``strategy`` and the mean share of the workers' time in each phase, by its name (they sum to 1)."""
    columns = [name for name in runs if str(name).startswith("spent_")]
    shares = runs[columns].div(runs[columns].sum(axis="columns"), axis="index").astype("float64")
    shares.columns = [str(name).removeprefix("spent_").removesuffix("_s") for name in columns]
    return shares.groupby([runs["case"], runs["strategy"]], sort=False).mean().reset_index()


def _time(name: str, group: Rows, baseline: Rows) -> dict[str, float]:
    values = np.array(numbers(group, f"{name}_s"))
    low, high = interval_of_times(values)
    ratio = paired_ratios(group, baseline, f"{name}_s")
    ratio_low, ratio_high = interval_of_times(ratio)
    return {
        f"{name}_s": median(values),
        f"{name}_low_s": low,
        f"{name}_high_s": high,
        f"{name}_missed": int(np.isinf(values).sum()),
        f"{name}_ratio": median(ratio),
        f"{name}_ratio_low": ratio_low,
        f"{name}_ratio_high": ratio_high,
        f"{name}_pairs": len(ratio),
    }


def interval(values: Iterable[float], confidence: float = CONFIDENCE, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval of the median (seeded); NaN for fewer than two values.

    Infinite values are allowed. With few values it is wide: with five, it spans the smallest to the largest.
    """
    from scipy.stats import bootstrap

    array = np.asarray(list(values), dtype="float64")
    if len(array) < 2:
        return nan, nan
    with np.errstate(invalid="ignore"):  # scipy's own interval interpolates, which fails with infinity
        result = bootstrap(
            (array,), np.median, n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(seed)
        )
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(result.bootstrap_distribution, [tail, 1.0 - tail], method="inverted_cdf")
    return float(low), float(high)


def curves(scored: Sequence[pd.DataFrame], labels: Sequence[str], points: int = 400) -> pd.DataFrame:
    """Metric against time by ``label``: ``t_s``, ``median``, ``low``, ``high`` (extremes over the seeds), ``runs``.

    ``scored`` are frames of ``asked_s`` and ``value``. Values are interpolated linearly between evaluations; after its
    end a run keeps its last value, so that a curve does not jump when a seed ends early.
    """
    frames = []
    for label in dict.fromkeys(labels):
        mine = [frame for frame, name in zip(scored, labels, strict=True) if name == label and len(frame)]
        if mine:
            frames.append(_curve(mine, points).assign(label=label, runs=len(mine)))
    columns = ["t_s", "median", "low", "high", "label", "runs"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def _curve(frames: list[pd.DataFrame], points: int) -> pd.DataFrame:
    if len(frames) == 1:
        t, values = frames[0]["asked_s"].to_numpy(), frames[0][["value"]].to_numpy().T
    else:
        start = max(float(frame["asked_s"].iloc[0]) for frame in frames)
        end = max(float(frame["asked_s"].iloc[-1]) for frame in frames)
        t = np.linspace(start, end, points)
        values = np.array([np.interp(t, frame["asked_s"], frame["value"]) for frame in frames])
    return pd.DataFrame({"t_s": t, "median": np.median(values, axis=0), "low": values.min(0), "high": values.max(0)})
