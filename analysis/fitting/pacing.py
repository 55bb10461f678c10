"""Iteration times implied by the devices of a run."""

from __future__ import annotations

from math import nan
from typing import Any

import pandas as pd


def is_paced(job: dict[str, Any]) -> bool:
    """Whether device profiles pace the workers of the cluster (hosts' devices are described elsewhere)."""
    return bool(job.get("device") or job.get("devices"))


def paced_s(job: dict[str, Any], rows: pd.DataFrame) -> pd.Series | float:
    """F(b) of the worker's device for every iteration in ``rows`` (``worker``, ``samples``), seconds; NaN without one.

    For one pass over the batch: rows do not say whether the gradient was accumulated. A worker that joined later has
    the device of worker 0.
    """
    if not is_paced(job):
        return nan
    fields = pd.DataFrame(job.get("devices") or [job["device"]])
    worker = rows["worker"].where(rows["worker"] < len(fields), 0)
    own = fields.reindex(columns=["base_s", "per_sample_s", "saturation_s"], fill_value=0.0).loc[worker]
    own = own.set_axis(rows.index)
    seconds: pd.Series = own["base_s"] + own["per_sample_s"] * rows["samples"]
    return seconds.clip(lower=own["saturation_s"])
