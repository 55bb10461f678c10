"""Compare any runs: how a time of each strategy relates to the baseline's, with a verdict; as rows of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, isnan
from typing import Literal, NamedTuple

import pandas as pd

from analysis.figures.names import NO_NAMES, shown_case, shown_name
from analysis.measures.distinguishing import MOST_SEEDS, Distinction, distinguish
from analysis.measures.profiles import MOST, profile_scores
from analysis.measures.stats import median, paired_ratios
from analysis.reports.console import number_text

Quantity = Literal["jct", "tta"]
NAMES: dict[Quantity, str] = {"jct": "JCT", "tta": "TTA"}
IN_WORDS: dict[Quantity, str] = {"jct": "job completion time", "tta": "time to the target"}


class Compared(NamedTuple):
    """One strategy in one case."""

    case: str
    strategy: str
    seeds: int
    median_s: float
    against: Distinction | None
    """None: it is the baseline itself, or the baseline was not run in this case."""
    score: float
    """Area below the performance profile over all cases; NaN unless there are several."""


class Sheet(NamedTuple):
    """A table of text: a head and rows of as many cells."""

    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def compared(runs: pd.DataFrame, baseline: str, quantity: Quantity) -> list[Compared]:
    """A row per strategy of :func:`analysis.measures.stats.run_table`, case by case, in order of appearance."""
    name = f"{quantity}_s"
    scores = _scores(runs, name)
    found = []
    for (case, strategy), group in runs.groupby(["case", "strategy"], sort=False):
        other = runs[(runs["case"] == case) & (runs["strategy"] == baseline)]
        against = None if strategy == baseline or not len(other) else distinguish(paired_ratios(group, other, name))
        median_s = median(group[name].dropna())
        found.append(
            Compared(str(case), str(strategy), group["seed"].nunique(), median_s, against, scores[str(strategy)])
        )
    cases = list(dict.fromkeys(row.case for row in found))
    return sorted(found, key=lambda row: cases.index(row.case))


def _scores(runs: pd.DataFrame, name: str) -> dict[str, float]:
    medians = runs.groupby(["case", "strategy"], sort=False)[name].median().unstack()
    if len(medians) < 2:
        return dict.fromkeys((str(strategy) for strategy in medians), float("nan"))
    return dict(zip((str(strategy) for strategy in medians), profile_scores(medians.to_numpy()), strict=True))


def sheet(
    rows: Sequence[Compared], baseline: str, quantity: Quantity, names: Mapping[str, str] | None = NO_NAMES
) -> Sheet:
    """The rows as text; columns that say nothing here are left out.

    ``names`` are those of cases and strategies for people, which come before those that strategies have already; None
    leaves all as they are in configurations, for programs.
    """

    def shown(label: str) -> str:
        return label if names is None else shown_name(label, names)

    cases, scored = any(row.case for row in rows), any(not isnan(row.score) for row in rows)
    head = [*(["case"] if cases else []), "strategy", "seeds", f"{NAMES[quantity]} (s)"]
    head += [
        f"over {shown(baseline)}",
        "95 % interval",
        "verdict",
        *([f"profile score (to {MOST:g}x)"] if scored else []),
    ]
    texts = []
    for row in rows:
        cells = [
            *([shown_case(row.case, names or NO_NAMES)] if cases else []),
            shown(row.strategy),
            str(row.seeds),
            number_text(row.median_s, 2),
        ]
        cells += [*_against(row.against, is_baseline=row.strategy == baseline, never=isinf(row.median_s))]
        texts.append((*cells, *([number_text(row.score, 2)] if scored else [])))
    return Sheet(tuple(head), texts)


def _against(found: Distinction | None, *, is_baseline: bool, never: bool) -> tuple[str, str, str]:
    """``never``: most runs did not get there; where the baseline did not either, there is no ratio."""
    if found is not None and never and not found.pairs:
        return "\N{EN DASH}", "", "never at any seed of both"
    if found is None:
        return ("1", "", "baseline") if is_baseline else ("\N{EN DASH}", "", "no baseline here")
    interval = "" if isnan(found.low) else f"[{number_text(found.low, 2)}, {number_text(found.high, 2)}]"
    return number_text(found.ratio, 2), interval, verdict_text(found)


def verdict_text(found: Distinction) -> str:
    """The verdict, and if there is none, how many seeds it would take."""
    if found.verdict == "too few seeds":
        return f"too few seeds ({found.pairs} paired)"
    if found.verdict != "not distinguishable" or not found.seeds_needed:
        return found.verdict
    if found.seeds_needed <= found.pairs:
        return found.verdict
    more = f"over {MOST_SEEDS - 1}" if found.seeds_needed >= MOST_SEEDS else f"some {found.seeds_needed}"
    return f"{found.verdict} ({found.pairs} seeds; {more} needed)"
