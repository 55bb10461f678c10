"""Selects the runs of an experiment that a claim is about."""

from __future__ import annotations

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
