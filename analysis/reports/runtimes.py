"""Live against virtual: the same jobs on both runtimes, if a comparison has them; as lines of text."""

from __future__ import annotations

from math import isnan

import pandas as pd

from analysis.figures.names import shown_case, shown_name
from analysis.measures.distinguishing import distinguish
from analysis.measures.stats import paired_ratios
from analysis.reports.comparing import NAMES, Quantity
from analysis.reports.console import number_text

LIVE, VIRTUAL = "runtime=live", "runtime=virtual"


def runtime_lines(runs: pd.DataFrame, quantity: Quantity) -> list[str]:
    """A line for each strategy and case that both runtimes ran with the same plan: the virtual time over the live one.

    ``runs``: :func:`analysis.measures.stats.run_table`, whose cases name the runtime if there are both.
    """
    parts = runs["case"].str.split(", ")
    where = parts.map(lambda words: next((word for word in words if word in (LIVE, VIRTUAL)), ""))
    rest = parts.map(lambda words: ", ".join(word for word in words if word not in (LIVE, VIRTUAL)))
    found = []
    for (case, strategy), group in runs.groupby([rest, "strategy"], sort=False):
        there = where[group.index]
        ratio = distinguish(paired_ratios(group[there == VIRTUAL], group[there == LIVE], f"{quantity}_s"))
        if ratio.pairs:
            limits = "" if isnan(ratio.low) else f" [{number_text(ratio.low, 3)}, {number_text(ratio.high, 3)}]"
            seeds = "1 seed" if ratio.pairs == 1 else f"{ratio.pairs} seeds"
            about = f" under {shown_case(str(case))}" if case else ""
            name = shown_name(str(strategy))
            found.append(
                f"virtual / live {NAMES[quantity]} of {name}{about}: {number_text(ratio.ratio, 3)}{limits} ({seeds})"
            )
    return found
