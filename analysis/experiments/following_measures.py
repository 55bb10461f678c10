"""The measures that an experiment takes of a run with replicas of the server: how far they were, how far behind."""

from __future__ import annotations

import json
from math import nan

import pandas as pd

from analysis.records.load import Run


def divergence_rows(run: Run) -> pd.DataFrame:
    """One row per update of the server and of a replica: ``distance`` of their parameters, ``behind`` in versions."""
    notes = run.tables.notes
    fields = notes.loc[notes["type"] == "Diverged", "fields"]
    return pd.DataFrame([json.loads(one) for one in fields], columns=["server", "version", "behind", "distance"])


def distance_frac(run: Run) -> float:
    """Largest distance of a replica and the server over ``divergence_max``; NaN without replicas."""
    most = run.job["strategy_fields"].get("divergence_max")
    rows = divergence_rows(run)
    return float(rows["distance"].max() / most) if most and len(rows) else nan


def distance_level(run: Run) -> float:
    """Largest distance of a replica that has made all updates of the server; NaN if none ever had."""
    rows = divergence_rows(run)
    return float(rows.loc[rows["behind"] == 0, "distance"].max())


def behind_mean(run: Run) -> float:
    """Updates that a replica lacks, as the mean over all updates."""
    return float(divergence_rows(run)["behind"].mean())


FOLLOWING_MEASURES = {
    "distance_frac": distance_frac,
    "distance_level": distance_level,
    "behind_mean": behind_mean,
}
