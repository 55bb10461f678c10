"""Selects the runs of an experiment that a claim is about."""

from __future__ import annotations

from math import inf

import numpy as np
import pandas as pd

from analysis.claims.ledger import Cell


def cell_of(runs: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """The runs of a cell, i.e. those with these levels."""
    chosen = np.ones(len(runs), dtype=bool)
    for axis, level in cell.items():
        if axis not in runs:
            return runs.iloc[:0]
        chosen &= (runs[axis] == level).to_numpy()
    return runs[chosen]


def counted(runs: pd.DataFrame, measure: str) -> pd.Series:
    """A measure of every run, which must have it, as it counts: a job that was cut off never ended."""
    values = runs[measure].astype("float64")
    if measure != "jct_s" or "completed" not in runs:
        return values
    return values.where(runs["completed"].astype(bool), inf)
