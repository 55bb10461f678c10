"""The table of docs/detectors.md: every detector's scores over all kinds of stragglers, virtual and live (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, sqrt

import pandas as pd

from analysis.experiments.numbers import DASH
from analysis.experiments.spec import TUNED, Spec
from analysis.markup import markdown_lines

MOST_PLACED = "64"
"""The number of ranks whose places and abstentions are in the table: large, and with hosts."""
QUIET = "power_law"
"""The kind whose quiet steps are in the table: all ranks are slow by turns, and none is at fault."""


LIVE_SIZE = "4"
"""The number of ranks of live jobs."""
BESIDE = ("by_chance", "oracle")
"""Levels that are no rules: whether live and virtual jobs order the others alike does not depend on them."""
CHOSEN = "set_"
"""The beginning of the levels of live jobs that have a tuned setting."""


def board_table(spec: Spec, frame: pd.DataFrame, live: pd.DataFrame) -> list[str]:
    """The lines of the table, and how alike live and virtual jobs order the detectors.

    Args:
        spec: the experiment, for its sizes, detectors and their names.
        frame: docs/images/detectors.csv, with ``ranks`` as text.
        live: docs/images/detectors-live.csv.
    """
    sizes = [size for size in spec.axes["ranks"] if (frame["ranks"] == size).any()]
    heads = ["", *(f"score, {size}" for size in sizes), "tuned", *(f"tuned, {size}" for size in sizes)]
    heads += ["right place (%)", "abstained (%)", "quiet (%)", "live, 4", "live, tuned"]
    lived = live.groupby("predictor")["score"].mean()
    rows = []
    for level in spec.predictors:
        mine, other = frame[frame["predictor"] == level], frame[frame["predictor"] == level + TUNED]
        placed = mine[mine["ranks"] == MOST_PLACED]
        quiet = [mine.loc[(mine["ranks"] == size) & (mine["straggler"] == QUIET), "score"] for size in sizes]
        rows.append(
            [
                spec.figure.names[level],
                *(mean_score(mine[mine["ranks"] == size]) for size in sizes),
                setting_of(other["setting"]),
                *(mean_score(other[other["ranks"] == size]) for size in sizes),
                *(_percent(placed[name].mean()) for name in ("located_frac", "abstained_frac")),
                " / ".join(_percent(found.mean()) for found in quiet),
                *(f"{lived[name]:.2f}" if name in lived else DASH for name in (level, CHOSEN + level)),
            ]
        )
    rules = [level for level in spec.predictors if level not in BESIDE]
    means = frame[frame["ranks"] == LIVE_SIZE].groupby("predictor")["score"].mean()
    alike = means[rules].corr(lived[rules], method="spearman")
    said = f"Rank correlation of the {len(rules)} rules' scores, live and virtual with {LIVE_SIZE} ranks: {alike:.2f}."
    return [*markdown_lines(heads, rows), "", said]


def mean_score(rows: pd.DataFrame) -> str:
    """The mean over kinds of stragglers of their median scores, and the half of its 95 % interval if all have one.

    The kinds' intervals count as independent, so the half of the mean's is their root sum of squares over their number.
    """
    if rows["score"].isna().all():
        return DASH
    halves = (rows["score_high"] - rows["score_low"]) / 2
    wide = "" if halves.isna().any() else f" ± {sqrt((halves**2).sum()) / len(rows):.2f}"
    return f"{rows['score'].mean():.2f}{wide}"


def setting_of(said: Sequence[str]) -> str:
    """The one setting that was chosen, in words; a dash if there was no choice."""
    found = sorted({*said})
    if not found:
        return DASH
    (one,) = found
    return one.replace("_frac=", " ").replace("=", " ")


def _percent(share: float) -> str:
    return DASH if isnan(share) else f"{100 * share:.0f}"
