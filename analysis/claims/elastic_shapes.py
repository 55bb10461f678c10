"""Shapes of experiments with nodes that change: see :mod:`analysis.claims.shapes`."""

from __future__ import annotations

import pandas as pd

from analysis.claims.cells import cell_of
from analysis.claims.ledger import Claim

GAIN_FRAC = 0.02
"""More cores that add no more than this have no effect."""
TABLE_2 = {"wd": (24, 3, 8), "xdfm": (8, 20, 2)}
"""DLRover's Table 2: workers, their cores, servers."""


def knee(runs: pd.DataFrame, claim: Claim) -> float | None:
    """The fewest ``cores`` with which the median of the measure is within 2 % of that with the most; None: not run."""
    if "cores" not in runs or claim.of not in runs:
        return None
    rows = cell_of(runs, claim.subject)
    if rows.empty:
        return None
    values = rows.groupby(rows["cores"].astype("float64"))[claim.of].median().sort_index()
    enough = values[values >= (1.0 - GAIN_FRAC) * values.iloc[-1]]
    return float(enough.index[0])


def frequent_plans(runs: pd.DataFrame) -> dict[str, tuple[int, ...]] | None:
    """Return the most frequent plan of each model: workers, their cores, servers; None if a model was not run."""
    columns = ["workers_last", "worker_cores_last", "servers_last"]
    if not {"model", *columns} <= set(runs) or not set(TABLE_2) <= set(runs["model"]):
        return None
    found = {model: runs.loc[runs["model"] == model, columns].dropna() for model in TABLE_2}
    if any(plans.empty for plans in found.values()):
        return None
    return {model: tuple(map(int, plans.value_counts().index[0])) for model, plans in found.items()}


def leads(runs: pd.DataFrame, claim: Claim) -> pd.DataFrame | None:
    """Return how far the subject's mean lies above the other's: rows per ``lifetime``, columns per number of ``pods``.

    None: one of the two was not run.
    """
    systems = [claim.subject["system"], claim.against[0]["system"]]
    if not {"pods", "lifetime", "system", claim.of} <= set(runs) or not set(systems) <= set(runs["system"]):
        return None
    sized = runs.assign(pods=runs["pods"].astype("int64"), lifetime=runs["lifetime"].astype("float64"))
    table = sized.groupby(["lifetime", "pods", "system"])[claim.of].mean().unstack("system")
    found: pd.DataFrame = (table[systems[0]] - table[systems[1]]).unstack("pods").sort_index(axis="columns")
    return found
