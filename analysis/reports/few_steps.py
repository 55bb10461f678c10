"""Advice on a log of a few steps, as profilers write them: which ranks were slow in these, and no more (pure)."""

from __future__ import annotations

import warnings

import numpy as np

from analysis.logs.step_log import StepLog
from analysis.reports.parts import part_lines, parts_of, slowest_part

QUICK = 0.25
"""Quantile of the ranks that each is compared with, as in longer logs; of a few ranks the quickest."""
MOST_RANKS = 20
"""So many slow ranks are listed."""


def compared_ranks(log: StepLog, slow_frac: float, needed: str) -> list[str]:
    """How long steps of each rank took (the median) relative to the quicker ranks; ``needed``: by a ranking."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a rank without any time
        own_s = np.nanmedian(log.own_s, axis=0)
    ratio = own_s / np.nanquantile(own_s, QUICK, method="lower")
    slow = [place for place in np.argsort(-ratio) if ratio[place] >= 1.0 + slow_frac]
    names = [f"rank {log.ranks[place]} {ratio[place]:.2f} times{_part(log, place)}" for place in slow[:MOST_RANKS]]
    more = f" and {len(slow) - len(names)} more" if len(slow) > len(names) else ""
    said = f"slow: {', '.join(names)}{more}" if slow else f"no rank is slower by {slow_frac:.0%} or more"
    return [
        f"{log.num_ranks} ranks, {len(log.steps)} steps: enough to compare ranks, not to say how often one is slow",
        f"own work per step, relative to the quicker ranks: {said}",
        *part_lines(log),
        f"nothing is ranked: {needed}",
    ]


def _part(log: StepLog, rank: int) -> str:
    """The part of own work in which this rank is slow, if the log tells loading from computing."""
    if log.data_s is None:
        return ""
    parts = {name: values for name, values in parts_of(log).items() if name != "communication"}
    usual = {name: np.nanmedian(values, axis=1, keepdims=True) for name, values in parts.items()}
    places = np.broadcast_to(np.arange(log.num_ranks) == rank, log.own_s.shape)
    return f" (in {slowest_part(parts, places, usual)[0]})"
