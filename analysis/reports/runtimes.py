"""Live against virtual: the same jobs on both runtimes, if a comparison has them; as lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isnan

from analysis.figures.names import shown_case, shown_name
from analysis.measures.distinguishing import distinguish
from analysis.measures.run_rows import CELL, Row, Rows, group_rows, paired_ratios, warned_counts
from analysis.reports.columns import NAMES, Quantity
from analysis.reports.console import number_text

APART = ("runtime", "calibration", "backend")
"""Settings that may differ: a virtual run has a cost model, and may leave out the computing. Cases may name these."""


def runtime_lines(runs: Rows, quantity: Quantity) -> list[str]:
    """A line for each strategy and case that both runtimes ran with the same plan: the virtual time over the live one.

    ``runs``: :func:`analysis.measures.run_rows.run_rows`. Runs with the same backend are paired or, if there are none,
    all; a line says which backends, if they differ, and which calibration, if there are several. If there are runs of
    both runtimes and none can be paired, one line says so.
    """
    if not {"live", "virtual"} <= {row["runtime"] for row in runs}:
        return []
    found = []
    for (case, strategy), group in group_rows(({**row, "case": _rest(row["case"])} for row in runs), *CELL).items():
        for virtual, live, differing in _pairs(group):
            ratio = distinguish(paired_ratios(virtual, live, f"{quantity}_s"))
            if ratio.pairs:
                limits = "" if isnan(ratio.low) else f" [{number_text(ratio.low, 3)}, {number_text(ratio.high, 3)}]"
                seeds = "1 seed" if ratio.pairs == 1 else f"{ratio.pairs} seeds"
                warned = warned_counts(virtual, live)["warned_pairs"]
                seeds += f", {warned} with a run that has a warning" if warned else ""
                about = f" under {shown_case(case)}" if case else ""
                found.append(
                    f"virtual / live {NAMES[quantity]} of {shown_name(strategy)}{about}{differing}: "
                    f"{number_text(ratio.ratio, 3)}{limits} ({seeds})"
                )
    return found or [
        f"no ratio of virtual to live {NAMES[quantity]}: no strategy has both for the same seed and plan, in cases "
        f"that differ in nothing but {', '.join(APART)}"
    ]


def _rest(case: str) -> str:
    """The case without the settings in which the two may differ."""
    words = re.split(r", (?=[\w.]+=)", case)  # a calibration may have a comma
    return ", ".join(word for word in words if word.partition("=")[0] not in APART)


def _pairs(group: Rows) -> Iterator[tuple[list[Row], list[Row], str]]:
    """Virtual runs alike, live runs alike, and in what they differ from each other or from other virtual runs."""
    sides = {
        name: list(group_rows((row for row in group if row["runtime"] == name), "backend", "calibration").items())
        for name in ("virtual", "live")
    }
    for (backend, calibration), virtual in sides["virtual"]:
        same = [(found, live) for (found, _), live in sides["live"] if found == backend]
        for other, live in same or [(found, live) for (found, _), live in sides["live"]]:
            differing = [] if other == backend else [f"backend {backend} for {other}"]
            if len({one for (_, one), _ in sides["virtual"]}) > 1:
                differing.append(f"calibration {calibration}")
            yield virtual, live, f" ({', '.join(differing)})" if differing else ""
