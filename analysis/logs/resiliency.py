"""Scores that NVIDIA's resiliency extension logs: how fast a rank is relative to the fastest, or to its own best."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isnan, nan

from analysis.logs.limits import MOST_RANKS, MOST_SECONDS
from analysis.logs.lines import Line, positive, whole
from analysis.logs.rows import Rows
from analysis.logs.step_log import LogError

HEAD = re.compile(r"GPU (relative|individual) performance:")
COUNT = re.compile(r"(Worst|Best) performing (\d++)/(\d++) ranks:")
SCORE = re.compile(r"Rank=(\d++) Node=(\S++) Score=(\S++)")
LEAST_SCORE = 1e-3
MOST_NAMED = 8
"""So many ranks without a score are named."""
RELATIVE = (
    "scores are relative: times are in units of the fastest rank's step, each report counts as one step, and nothing "
    "is known of barriers and transfers"
)


@dataclass
class Report:
    """Relative scores by rank; ``between`` counts for ranks that are in neither list."""

    scores: dict[int, float] = field(default_factory=dict)
    between: float = 0.0


def is_resiliency(line: Line) -> bool:
    """Whether a line begins a report."""
    return HEAD.search(line.text) is not None


def read_resiliency(source: str, lines: Iterable[Line]) -> Rows:
    """The relative scores of every report, as times: 1 / score.

    A report lists some of the worst ranks and some of the best. A rank that is in neither list lies between them, and
    counts as the best of the worst. Scores relative to a rank's own best are passed over. A rank whose score is ``nan``
    was not measured: it has no time in that report, and is named in a remark.

    Raises:
        LogError: no relative score is in it, or a number is none.
    """
    reports, nodes, total = _reports(source, lines)
    if not any(report.scores for report in reports):
        raise LogError(f"{source}: has no scores relative to other ranks (calc_relative_gpu_perf)")
    unknown = Counter(rank for report in reports for rank, score in report.scores.items() if isnan(score))
    rows = Rows(source, remarks=[RELATIVE, *_find_unmeasured(unknown, nodes, len(reports))])
    rows.hosts = {str(rank): node for rank, node in nodes.items()}
    ranks = sorted({*range(total), *nodes})
    for step, report in enumerate(reports):
        for rank in ranks:
            score = report.scores.get(rank, report.between or 1.0)
            if not isnan(score):
                rows.add(str(rank), step, 1.0 / max(score, LEAST_SCORE))
    return rows


def _reports(source: str, lines: Iterable[Line]) -> tuple[list[Report], dict[int, str], int]:
    """(reports with relative scores, nodes of ranks, ranks that there are)."""
    reports: list[Report] = []
    nodes: dict[int, str] = {}
    total, relative, worst = 0, False, False
    for line in lines:
        where = f"{source}: line {line.number}"
        if head := HEAD.search(line.text):
            relative = head[1] == "relative"
            if relative:
                reports.append(Report())
        elif relative and (count := COUNT.search(line.text)):
            worst, total = count[1] == "Worst", max(total, whole(count[3], "ranks", where, MOST_RANKS))
        elif relative and (score := SCORE.search(line.text)):
            rank, value = whole(score[1], "rank", where, MOST_RANKS), _score(score[3], where)
            nodes[rank] = score[2]
            reports[-1].scores[rank] = value
            if worst and not isnan(value):
                reports[-1].between = max(reports[-1].between, value)
    return reports, nodes, total


def _score(found: str, where: str) -> float:
    return nan if found.lower() == "nan" else positive(found, "score", where, MOST_SECONDS)


def _find_unmeasured(unknown: Counter[int], nodes: dict[int, str], reports: int) -> list[str]:
    if not unknown:
        return []
    worst = unknown.most_common(MOST_NAMED)
    names = ", ".join(f"rank {rank} on {nodes[rank]} ({count} of {reports})" for rank, count in worst)
    more = f" and {len(unknown) - len(worst)} more" if len(unknown) > len(worst) else ""
    return [
        f"no score (nan) in some reports: {names}{more}; a rank that is not measured may be the slowest, or hang: "
        "look at it first"
    ]
