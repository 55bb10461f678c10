"""The learning of a cluster's jobs, and its times: over jobs, from the evaluations of each on its own clock."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan

import numpy as np
import pandas as pd

from analysis.measures import targets
from analysis.measures.small_samples import median
from analysis.records.cluster import Cluster
from analysis.records.job_evaluations import read_evaluations
from analysis.records.load import load_object

LOSS = "loss"
"""The metric whose exponential is a perplexity."""


class Learning:
    """The evaluations of every job of a run; a job without a record has none, and reaches nothing.

    ``metric`` of all jobs; empty if they differ, or there is no record.
    """

    def __init__(self, cluster: Cluster) -> None:
        folders = cluster.folders
        self.jobs: tuple[str, ...] = tuple(cluster.jobs["job"])
        self._evaluations = {job: read_evaluations(folder) for job, folder in folders.items()}
        metas = [folder / "meta.json" for folder in folders.values()]
        abouts = [load_object(path).get("job") or {} for path in metas if path.is_file()]
        metrics = {(str(about.get("metric") or ""), bool(about.get("higher_is_better", True))) for about in abouts}
        self.metric, self.higher_is_better = metrics.pop() if len(metrics) == 1 else ("", True)

    def settled(self, metric: str | None = None) -> dict[str, float]:
        """Return the value that each job converged to; NaN if never evaluated. ``metric`` None: the jobs' own."""
        return {job: targets.settled(self._scores(job, metric or self.metric)) for job in self.jobs}

    def converged(self) -> float:
        """The mean over jobs; NaN unless every job was evaluated."""
        return float(np.mean(list(self.settled().values()))) if self.jobs else nan

    def perplexity(self) -> float:
        """The mean over jobs of exp(loss), at the loss that each converged to."""
        return float(np.mean(np.exp(list(self.settled(LOSS).values())))) if self.jobs else nan

    def reached_s(self, goals: Mapping[str, float]) -> dict[str, float]:
        """Return each job's seconds from its first computation to its goal: infinite if never, NaN without a goal."""
        return {
            job: nan
            if np.isnan(goals.get(job, nan))
            else targets.tta_s(self._scores(job, self.metric), goals[job], self.higher_is_better)
            for job in self.jobs
        }

    def _scores(self, job: str, metric: str) -> pd.DataFrame:
        return targets.scores(self._evaluations.get(job, pd.DataFrame({"asked_s": []})), metric)


def tta_of(learning: Learning, reference: Learning | None) -> dict[str, float]:
    """TTA of a run's jobs: until each is at what the same job of the reference converges to.

    ``tta_s`` the mean over jobs, infinite if one never is; ``tta_median_s``; ``reached_frac`` the share of jobs that
    are. All NaN without the reference.
    """
    times = [] if reference is None else list(learning.reached_s(reference.settled()).values())
    known = [value for value in times if not np.isnan(value)]
    if not known:
        return dict.fromkeys(TTAS, nan)
    return {
        "tta_s": float(np.mean(known)),
        "tta_median_s": median(np.array(known)),
        "reached_frac": sum(value < inf for value in known) / len(known),
    }


TTAS = ("tta_s", "tta_median_s", "reached_frac")
"""The measures that a target adds to sets of jobs."""
