"""Comparisons across seeds. A run that never finished counts as infinite; it is never left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures.labels import case_labels, strategy_labels
from analysis.measures.small_samples import interval_of_times
from analysis.measures.warned import stored, together

CONFIDENCE = 0.95
RESAMPLES = 2000
TIMES = ("jct_s", "tta_s")
PAIR = ["seed", "plan_sha256"]
"""What two runs have in common that are compared with each other."""
MEANS = (
    "final_metric",
    "best_metric",
    "updates",
    "staleness_mean",
    "staleness_max",
    "wait_frac",
    "dropped_frac",
    "bpt_median_s",
)


def run_table(
    metas: Sequence[dict[str, Any]], summaries: Sequence[dict[str, Any]], paths: Sequence[object]
) -> pd.DataFrame:
    """One row per run from its ``meta.json`` and summary.

    ``path``, ``run_id``, ``case``, ``strategy`` (labels), ``runtime``, ``calibration``, ``backend``, ``seed``,
    ``plan_sha256``, ``status``, ``completed``, ``jct_s`` (infinite unless completed), ``lasted_s`` (finite),
    ``tta_s`` (infinite if missed, nan without a target), ``tta_step_s`` (it may have been so much sooner), ``target``,
    the columns of ``MEANS``, ``spent_*_s``, the seconds that all workers spent in each phase, and ``warnings``, as in
    the summary.
    """
    rows = []
    for summary in summaries:
        keys = ("run_id", "seed", "plan_sha256", "status", "completed", "target", "metric", "higher_is_better")
        row = {key: summary[key] for key in keys} | {key: summary.get(key) for key in MEANS}
        row |= {f"spent_{name}": seconds for name, seconds in summary["time_spent_s"].items()}
        row["bpt_median_s"] = summary["bpt_s"]["median"]
        row["warnings"] = summary.get("warnings") or []
        row["tta_step_s"] = summary.get("tta_step_s")
        row["lasted_s"] = summary["jct_s"]
        row["jct_s"] = summary["jct_s"] if summary["completed"] else inf
        row["tta_s"] = inf if summary["tta_missed"] else summary["tta_s"]
        rows.append(row)
    frame = pd.DataFrame(rows)
    frame = frame.astype(dict.fromkeys((*TIMES, *MEANS, "target", "lasted_s", "tta_step_s"), "float64"))
    where = {key: [meta.get(key) for meta in metas] for key in ("runtime", "calibration")}
    where["backend"] = [meta["job"].get("backend") for meta in metas]
    labels = {"path": [str(path) for path in paths], "case": case_labels(metas), "strategy": strategy_labels(metas)}
    return frame.assign(**where, **labels)


def compare_runs(runs: pd.DataFrame, baseline: str | None = None) -> pd.DataFrame:
    """One row per case and strategy of a :func:`run_table`, in order of appearance.

    ``runs``, ``seeds`` (numbers); ``metric``, ``higher_is_better``, ``target``; for ``jct`` and ``tta`` each: ``_s``
    ``_low_s``, ``_high_s``, ``_missed``, ``_ratio``, ``_ratio_low``, ``_ratio_high``, ``_pairs`` (seeds compared);
    ``tta_step_s`` (the largest); ``warned`` and ``warned_pairs``, how many runs have warnings, and how many pairs with
    one that has; medians of the columns of ``MEANS``, but the largest ``staleness_max``. Intervals are those of the
    verdicts (:func:`analysis.measures.small_samples.interval_of_times`).
    """
    rows = []
    for (case, strategy), group in runs.groupby(["case", "strategy"], sort=False):
        row = {"case": case, "strategy": strategy, "runs": len(group), "seeds": group["seed"].nunique()}
        row |= {name: group[name].iloc[0] for name in ("metric", "higher_is_better", "target")}
        other = runs[(runs["case"] == case) & (runs["strategy"] == baseline)]
        for name in TIMES:
            row |= _time(name.removesuffix("_s"), group, other)
        row |= {"tta_step_s": group["tta_step_s"].max()} | warned_counts(group, other)
        row |= {name: group[name].median() for name in MEANS} | {"staleness_max": group["staleness_max"].max()}
        rows.append(row)
    return pd.DataFrame(rows)


def time_shares(runs: pd.DataFrame) -> pd.DataFrame:
    """``case``, ``strategy`` and the mean share of the workers' time in each phase, by its name (they sum to 1)."""
    columns = [name for name in runs if str(name).startswith("spent_")]
    shares = runs[columns].div(runs[columns].sum(axis="columns"), axis="index").astype("float64")
    shares.columns = [str(name).removeprefix("spent_").removesuffix("_s") for name in columns]
    return shares.groupby([runs["case"], runs["strategy"]], sort=False).mean().reset_index()


def _time(name: str, group: pd.DataFrame, baseline: pd.DataFrame) -> dict[str, float]:
    values = group[f"{name}_s"].dropna().to_numpy()
    low, high = interval_of_times(values)
    ratio = paired_ratios(group, baseline, f"{name}_s").to_numpy()
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


def median(values: Iterable[float]) -> float:
    """The median, infinite if half of the values are; NaN for no values."""
    array = np.asarray(list(values), dtype="float64")
    return float(np.median(array)) if len(array) else nan


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


def paired_ratios(group: pd.DataFrame, baseline: pd.DataFrame, name: str) -> pd.Series:
    """Ratio of ``name`` in the group to that in the baseline, by seed, for seeds that both ran with the same plan.

    Runs of the same seed are merged by their median. Infinite over finite stays infinite, finite over infinite is 0; if
    both are infinite there is no ratio, and the seed is left out.
    """
    ours, theirs = (frame.groupby(PAIR, dropna=False)[name].median() for frame in (group, baseline))
    ours, theirs = ours.align(theirs, join="inner")
    with np.errstate(invalid="ignore"):
        ratios = ours / theirs
    return ratios.dropna().droplevel("plan_sha256")


def warned_counts(group: pd.DataFrame, baseline: pd.DataFrame) -> dict[str, int]:
    """``warned``: how many runs have warnings; ``warned_pairs``: how many pairs (seeds) have a run that has."""
    ours, theirs = (
        frame["warnings"].map(bool).groupby([frame[key] for key in PAIR], dropna=False).any()
        for frame in (group, baseline)
    )
    ours_paired, theirs_paired = ours.align(theirs, join="inner")
    return {
        "warned": int(group["warnings"].map(bool).sum()),
        "warned_pairs": int((ours_paired.astype(bool) | theirs_paired.astype(bool)).sum()),
    }


def warnings_of(runs: pd.DataFrame, shown: Callable[[str], str] = str) -> list[str]:
    """Reasons why a comparison is unfair or thin: different plans for one seed, fewer than five seeds, missing seeds.

    Includes the warnings of the runs themselves (:mod:`analysis.measures.warned`), of each strategy the worst;
    ``shown``: what lines call it.
    """
    found = []
    for (case, seed), group in runs.groupby(["case", "seed"], sort=False):
        if group["plan_sha256"].nunique() > 1:
            where = f" ({case})" if case else ""
            found.append(
                f"seed {seed}{where}: {group['plan_sha256'].nunique()} different plans; such runs are not paired"
            )
    for case, group in runs.groupby("case", sort=False):
        where = f"{case}: " if case else ""
        found += few_seeds(group.groupby("strategy", sort=False)["seed"].nunique(), f"{where}strategies ran", where)
    for (case, strategy), group in runs.groupby(["case", "strategy"], sort=False) if "warnings" in runs else ():
        where = f" ({case})" if case else ""
        alike = together((stored({"warnings": each}) for each in group["warnings"]), "runs")
        found += [f"{shown(strategy)}{where}, {one.text}" for one in alike]
    return found


def few_seeds(seeds: pd.Series, who: str, where: str) -> list[str]:
    """What is thin about these numbers of seeds, by what is compared; ``who`` begins the sentence if they differ."""
    if seeds.min() != seeds.max():
        return [f"{who} with different numbers of seeds ({seeds.min()} to {seeds.max()})"]
    thin = f"{where}{seeds.max()} seeds only: intervals are wide; five or more narrow them"
    return [thin] if 1 < seeds.max() < 5 else []


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
