"""Distributions of millions of deviations in a few hundred numbers: counts between fixed edges, which add up. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.measures.work import STRAGGLER_FRAC

EDGES = np.unique([0.0, *np.geomspace(1e-3, 100.0, 301), STRAGGLER_FRAC, np.inf])
"""Upper ends of the bins: a value lies in the first bin whose end is not below it. 4 % apart, and at the limit."""
PERCENTS = np.array([*np.linspace(-1.0, 2.0, 301).round(2), np.inf])
"""The same of changes and shares, a hundredth apart."""


def counts(values: np.ndarray, edges: np.ndarray = EDGES) -> np.ndarray:
    """Number of values in every bin, int64; none may be below the first edge."""
    return np.bincount(np.searchsorted(edges, values), minlength=len(edges)).astype("int64")


def tabulate(by_kind: Mapping[str, np.ndarray], edges: np.ndarray = EDGES) -> pd.DataFrame:
    """``kind``, ``up_to`` (upper end of a bin), ``count``: the bins that hold a value, of each kind."""
    frames = [pd.DataFrame({"kind": kind, "up_to": edges, "count": number}) for kind, number in by_kind.items()]
    columns = {"kind": "str", "up_to": "float64", "count": "int64"}
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(columns)).astype(columns)
    return table[table["count"] > 0].reset_index(drop=True)
