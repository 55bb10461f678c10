"""The same jobs on two runtimes: how well the times of each agree, and whether they end in the same order. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

TOLERANCE_FRAC = 0.10


class AtLiveSpeed(NamedTuple):
    """The virtual set on other processors, so that it takes as much processor time as live."""

    factor: float
    """Their speed relative to the machine's speed while the costs were fitted."""
    met: ClusterFidelity


@dataclass(frozen=True, eq=False)
class ClusterFidelity:
    """``jobs`` has a row per job: ``job``, ``gpus``; of both ``live`` and ``virtual`` ``_jct_s`` and ``_train_s``.

    ``train_s`` begins when the tasks compute: live, an agent imports its framework before. ``jct_ratio`` and
    ``train_ratio`` are virtual over live; ``within``: whether ``jct_ratio`` is within the tolerance.
    """

    jobs: pd.DataFrame
    order_kept: bool
    """Whether jobs have the same order by completion time."""


def fidelity_of(live: pd.DataFrame, virtual: pd.DataFrame, tolerance_frac: float = TOLERANCE_FRAC) -> ClusterFidelity:
    """Compare two frames of :func:`analysis.measures.cluster.jobs.job_times` with the same jobs."""
    sides = {}
    for name, times in (("live", live), ("virtual", virtual)):
        by_job = times.set_index("job")
        train_s = by_job["end_s"] - by_job["zero_s"]
        sides[name] = pd.DataFrame({f"{name}_jct_s": by_job["jct_s"], f"{name}_train_s": train_s})
    jobs = sides["live"].join(sides["virtual"], how="outer", validate="1:1")
    jobs.insert(0, "gpus", live.set_index("job")["gpus"])
    for what in ("jct", "train"):
        jobs[f"{what}_ratio"] = jobs[f"virtual_{what}_s"] / jobs[f"live_{what}_s"]
    jobs["within"] = (jobs["jct_ratio"] - 1).abs() <= tolerance_frac
    order = [list(jobs.sort_values(f"{side}_jct_s", kind="stable").index) for side in sides]
    return ClusterFidelity(jobs.reset_index(names="job"), order[0] == order[1])


def core_seconds(hosts: pd.DataFrame) -> float:
    """Processor time of all hosts together, of the samples of a cluster's record (``Cluster.hosts``); 0 without any."""
    in_order = hosts.sort_values(["host", "t_s"])
    lasting_s = in_order["t_s"] - in_order.groupby("host")["t_s"].shift(fill_value=0.0)
    return float((in_order["cpu_cores"] * lasting_s).sum())
