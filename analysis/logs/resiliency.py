"""Scores that NVIDIA's resiliency extension logs: how fast a rank is relative to the fastest, or to its own best."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

from analysis.logs.step_log import LogError, StepLog, gather

HEAD = re.compile(r"GPU (relative|individual) performance:")
COUNT = re.compile(r"(Worst|Best) performing (\d+)/(\d+) ranks:")
SCORE = re.compile(r"Rank=(\d+) Node=(\S+) Score=([0-9.]+)")
RELATIVE = (
    "scores are relative: times are in units of the fastest rank's step, each report counts as one step, and nothing "
    "is known of barriers and transfers"
)


def is_resiliency(lines: Iterable[str]) -> bool:
    """Whether any line begins a report."""
    return any(HEAD.search(line) for line in lines)


def read_resiliency(source: str, lines: Iterable[str]) -> StepLog:
    """The relative scores of every report, as times: 1 / score.

    A report lists some of the worst ranks and some of the best. A rank that is in neither list lies between them, and
    counts as the best of the worst. Scores relative to a rank's own best are passed over.

    Raises:
        LogError: no relative score is in it.
    """
    reports: list[dict[int, float]] = []
    nodes: dict[int, str] = {}
    total, relative, worst = 0, False, False
    between = list[float]()
    for line in lines:
        if head := HEAD.search(line):
            relative = head[1] == "relative"
            if relative:
                reports.append({})
                between.append(0.0)
        elif relative and (count := COUNT.search(line)):
            worst, total = count[1] == "Worst", max(total, int(count[3]))
        elif relative and (score := SCORE.search(line)):
            rank, value = int(score[1]), float(score[3])
            nodes[rank] = score[2]
            reports[-1][rank] = value
            if worst:
                between[-1] = max(between[-1], value)
    if not any(reports):
        raise LogError(f"{source}: has no scores relative to other ranks (calc_relative_gpu_perf)")
    rows = [
        {"rank": rank, "step": step, "own_s": 1.0 / max(report.get(rank, between[step] or 1.0), 1e-3)}
        for step, report in enumerate(reports)
        for rank in range(max(total, max(nodes) + 1))
    ]
    frame = pd.DataFrame(rows)
    return gather(source, frame.assign(host=frame["rank"].map(nodes).fillna("?")), remarks=[RELATIVE])
