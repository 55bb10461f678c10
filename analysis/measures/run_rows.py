"""Runs that are compared, as a row of plain values each. A run that never finished counts as infinite."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import inf, isnan, nan
from typing import Any

import numpy as np

from analysis.measures.labels import case_labels, strategy_labels
from analysis.measures.small_samples import median
from analysis.measures.warning_lines import stored_warnings, together

TIMES = ("jct_s", "tta_s")
PAIR = ("seed", "plan_sha256")
"""The columns that must be equal for two runs to be compared."""
CELL = ("case", "strategy")
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
Row = Mapping[str, Any]
Rows = Sequence[Row]


def run_rows(
    metas: Sequence[dict[str, Any]], summaries: Sequence[dict[str, Any]], paths: Sequence[object]
) -> list[dict[str, Any]]:
    """One row per run from its ``meta.json`` and summary.

    ``path``, ``run_id``, ``case``, ``strategy`` (labels), ``runtime``, ``calibration``, ``backend``, ``seed``,
    ``plan_sha256``, ``status``, ``completed``, ``jct_s`` (infinite unless completed), ``lasted_s`` (finite),
    ``tta_s`` (infinite if missed, nan without a target), ``tta_step_s`` (it may have been so much sooner), ``target``,
    ``MEANS``, ``spent_*_s``, the seconds that all workers spent in each phase, and ``warnings``, as in the summary.
    """
    labels = zip(metas, paths, case_labels(metas), strategy_labels(metas), strict=True)
    return [
        _numbers(summary)
        | {"runtime": meta.get("runtime"), "calibration": meta.get("calibration")}
        | {"backend": meta["job"].get("backend"), "path": str(path), "case": case, "strategy": strategy}
        for summary, (meta, path, case, strategy) in zip(summaries, labels, strict=True)
    ]


def _numbers(summary: dict[str, Any]) -> dict[str, Any]:
    keys = ("run_id", "seed", "plan_sha256", "status", "completed", "target", "metric", "higher_is_better")
    row = {key: summary[key] for key in keys} | {key: summary.get(key) for key in MEANS}
    row |= {f"spent_{name}": seconds for name, seconds in summary["time_spent_s"].items()}
    row["bpt_median_s"] = summary["bpt_s"]["median"]
    row["warnings"] = summary.get("warnings") or []
    row["tta_step_s"] = summary.get("tta_step_s")
    row["lasted_s"] = summary["jct_s"]
    row["jct_s"] = summary["jct_s"] if summary["completed"] else inf
    row["tta_s"] = inf if summary["tta_missed"] else summary["tta_s"]
    for key in (*TIMES, *MEANS, "target", "lasted_s", "tta_step_s"):
        row[key] = nan if row[key] is None else float(row[key])
    return row


def group_rows(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows by the values of these keys, in order of appearance."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def numbers(rows: Iterable[Row], name: str) -> list[float]:
    """A column without what is not a number."""
    return [row[name] for row in rows if not isnan(row[name])]


def largest(values: Sequence[float]) -> float:
    """The largest of these numbers; NaN of none."""
    return max(values, default=nan)


def seeds(rows: Iterable[Row]) -> int:
    """How many different seeds there are."""
    return len({row["seed"] for row in rows})


def of_cell(rows: Iterable[Row], case: str, strategy: str | None) -> list[Row]:
    """The runs of a strategy in a case."""
    return [row for row in rows if row["case"] == case and row["strategy"] == strategy]


def paired_ratios(group: Rows, baseline: Rows, name: str) -> list[float]:
    """Ratio of ``name`` in the group to that in the baseline, for each seed that both ran with the same plan.

    Runs of the same seed are merged by their median. Infinite over finite stays infinite, finite over infinite is 0; if
    both are infinite there is no ratio, and the seed is left out.
    """
    pairs = [(numbers(ours, name), numbers(theirs, name)) for ours, theirs in _pairs(group, baseline)]
    ours, theirs = np.array([[median(one), median(other)] for one, other in pairs]).reshape(-1, 2).T
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = ours / theirs
    return [ratio for ratio in ratios.tolist() if not isnan(ratio)]


def _pairs(group: Rows, baseline: Rows) -> Iterator[tuple[list[Row], list[Row]]]:
    theirs = group_rows(baseline, *PAIR)
    for pair, ours in group_rows(group, *PAIR).items():
        if pair in theirs:
            yield ours, theirs[pair]


def warned_counts(group: Rows, baseline: Rows) -> dict[str, int]:
    """``warned``: how many runs have warnings; ``warned_pairs``: how many pairs (seeds) have a run that has."""
    pairs = [[*ours, *theirs] for ours, theirs in _pairs(group, baseline)]
    return {
        "warned": sum(bool(row["warnings"]) for row in group),
        "warned_pairs": sum(any(row["warnings"] for row in pair) for pair in pairs),
    }


def warnings_of(runs: Rows, shown: Callable[[str], str] = str) -> list[str]:
    """Reasons why a comparison is unfair or thin: different plans for one seed, fewer than five seeds, missing seeds.

    Includes the warnings of the runs themselves (:mod:`analysis.measures.warned`), of each strategy the worst;
    ``shown``: its name in lines.
    """
    found = []
    for (case, seed), group in group_rows(runs, "case", "seed").items():
        plans = {row["plan_sha256"] for row in group} - {None}
        if len(plans) > 1:
            where = f" ({case})" if case else ""
            found.append(f"seed {seed}{where}: {len(plans)} different plans; such runs are not paired")
    for (case,), group in group_rows(runs, "case").items():
        where = f"{case}: " if case else ""
        found += few_seeds(
            [seeds(own) for own in group_rows(group, "strategy").values()], f"{where}strategies ran", where
        )
    for (case, strategy), group in group_rows(runs, *CELL).items():
        where = f" ({case})" if case else ""
        alike = together((stored_warnings(row) for row in group), "runs")
        found += [f"{shown(strategy)}{where}, {one.text}" for one in alike]
    return found


def few_seeds(seeds: Collection[int], who: str, where: str) -> list[str]:
    """Warn if these numbers of seeds, one of each system, are small; ``who`` begins a line if they differ."""
    if min(seeds) != max(seeds):
        return [f"{who} with different numbers of seeds ({min(seeds)} to {max(seeds)})"]
    thin = f"{where}{max(seeds)} seeds only: intervals are wide; five or more narrow them"
    return [thin] if 1 < max(seeds) < 5 else []
