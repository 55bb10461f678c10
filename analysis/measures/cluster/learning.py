"""The learning of a cluster's jobs, and its times: over jobs, from the evaluations of each on its own clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan

import numpy as np
import pandas as pd

from analysis.measures import targets
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

    def converged_values(self, metric: str | None = None) -> dict[str, float]:
        """Return the value that each job converged to; NaN if never evaluated. ``metric`` None: the jobs' own."""
        return {job: targets.converged_value(self._scores(job, metric or self.metric)) for job in self.jobs}

    def mean_metric(self) -> float:
        """The mean over jobs; NaN unless every job was evaluated."""
        return float(np.mean(list(self.converged_values().values()))) if self.jobs else nan

    def perplexity(self) -> float:
        """The mean over jobs of exp(loss), at the loss that each converged to."""
        return float(np.mean(np.exp(list(self.converged_values(LOSS).values())))) if self.jobs else nan

    def reached_s(self, losses: Mapping[str, float]) -> dict[str, float]:
        """Return each job's seconds from its first computation until its held-out loss is as low.

        Interpolated between two evaluations; infinite if it never is, NaN for a job without a loss to reach.
        """
        return {
            job: nan
            if np.isnan(losses.get(job, nan))
            else targets.tta_interp_s(self._scores(job, LOSS), losses[job], higher_is_better=False)
            for job in self.jobs
        }

    def _scores(self, job: str, metric: str) -> pd.DataFrame:
        return targets.scores(self._evaluations.get(job, pd.DataFrame({"asked_s": []})), metric)


def common_losses(references: Sequence[Learning]) -> dict[str, float]:
    """The loss of each job that it converges to, or below, in all runs: the highest of what they converge to.

    A run in which it was never evaluated sets none; NaN if that is so in all.
    """
    settled = pd.DataFrame([one.converged_values(LOSS) for one in references])
    return {str(job): float(loss) for job, loss in settled.max().items()}


def mean_tta_s(reached_s: Mapping[str, float]) -> float:
    """The mean over jobs of the time to accuracy: the seconds in which each reached its loss (``Learning.reached_s``).

    Infinite if one never did; NaN if no job had a loss to reach.
    """
    known = [value for value in reached_s.values() if not np.isnan(value)]
    return float(np.mean(known)) if known else nan
