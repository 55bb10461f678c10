"""Which mode of synchronisation a run was in when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pandas as pd

from analysis.measures.metrics import jct_s
from analysis.records.load import Run

MODE, DECISIONS = "mode", "decisions"
"""The keys that the gate and the schedule of a strategy with modes log."""


def modes_over_time(run: Run) -> pd.DataFrame:
    """``start_s``, ``end_s``, ``mode`` (text) of every stretch with one mode; empty for a strategy without modes."""
    found = [(t, str(state[MODE])) for t, state in _states(run) if MODE in state]
    changes = [(t, mode) for number, (t, mode) in enumerate(found) if not number or mode != found[number - 1][1]]
    ends = [*(t for t, _ in changes[1:]), jct_s(run)]
    rows = [(t, end, mode) for (t, mode), end in zip(changes, ends, strict=False)]
    return pd.DataFrame(rows, columns=["start_s", "end_s", "mode"]).astype({"start_s": "float64", "end_s": "float64"})


def decided_s(run: Run) -> list[float]:
    """When decisions about the mode were made."""
    counts = [(t, int(state[DECISIONS])) for t, state in _states(run) if MODE in state and DECISIONS in state]
    return [t for (_, before), (t, now) in pairwise([(0.0, 0), *counts]) if now > before]


def _states(run: Run) -> Iterator[tuple[float, dict[str, Any]]]:
    for line in run.notable_lines:
        if line.state:
            yield line.t, msgspec.json.decode(line.state)
