"""The numbers of an experiment as a Markdown table: medians with intervals, and ratios to a reference (pure)."""

from __future__ import annotations

from math import isfinite, isnan

import numpy as np
import pandas as pd

from analysis.claims.answers import Answer, by_seed, median_answer, versus
from analysis.claims.cells import cell_of
from analysis.claims.ledger import Cell, Claim
from analysis.experiments.results import Results
from analysis.experiments.spec import Numbers

DASH = "\N{EN DASH}"
ROUNDING = 1e-6
RATIO = Claim(id="ratio", where="", check="context", unit="x", how="times")
"""T_b / T, by seed."""


def numbers(results: Results) -> tuple[list[str], list[list[str]]]:
    """Heads and rows: the levels of a cell, then each measure; with a reference its ratio to that, too.

    A ratio is the median of the ratios by seed. Where a run of the cell never ended, or never reached its target, the
    number of such seeds follows.
    """
    wanted, axes = results.spec.numbers, results.spec.compared_axes
    if wanted is None or not len(results.runs):
        return [], []
    reference = ", ".join(wanted.over.values())
    heads = [*axes]
    for measure, head in wanted.columns.items():
        heads += [head, f"over {reference}"] if measure in wanted.ratios else [head]
    rows = []
    for levels, group in results.runs.groupby(axes, sort=False):
        cell = dict(zip(axes, levels, strict=True))
        texts = [text for measure in wanted.columns for text in texts_of(group, results.runs, cell, measure, wanted)]
        rows.append([*cell.values(), *texts])
    return heads, rows


def texts_of(group: pd.DataFrame, runs: pd.DataFrame, cell: Cell, measure: str, wanted: Numbers) -> list[str]:
    """The texts of one measure of one cell."""
    values = by_seed(group, {}, measure)
    texts = [with_interval(median_answer(values * wanted.scale.get(measure, 1.0))) + unreached_text(values)]
    if measure in wanted.ratios:
        other = {**cell, **wanted.over}
        theirs = by_seed(cell_of(runs, other), {}, measure)
        texts.append("" if other == cell else ratio(values, theirs))
    return texts


def ratio(values: pd.Series, theirs: pd.Series) -> str:
    """``1.43 [1.27, 1.9]``; no interval where the reference never got there for some seed, whose ratio is 0."""
    found = versus(RATIO, theirs, values)
    if np.isinf(theirs).any():
        return DASH if isnan(found.value) else plain(found.value)
    return with_interval(found)


def with_interval(found: Answer) -> str:
    """``8.21 [7.9, 8.6]``; a dash for nothing."""
    if not found.seeds or isnan(found.value):
        return DASH
    if isnan(found.low) or found.low == found.high:
        return plain(found.value)
    return f"{plain(found.value)} [{plain(found.low)}, {plain(found.high)}]"


def unreached_text(values: pd.Series) -> str:
    """How many seeds never got there, if some did not."""
    count = int(np.isinf(values).sum())
    return f" ({count} of {len(values)} never)" if 0 < count < len(values) else ""


def plain(value: float) -> str:
    """At most four significant digits; differences below rounding are 0."""
    value = 0.0 if abs(value) < ROUNDING else value
    if not isfinite(value):
        return "never" if value > 0 else DASH
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"
