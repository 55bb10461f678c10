"""The measures that an experiment takes of a set of jobs; seconds or plain fractions (docs/cluster_report.md).

Times are infinite where a job never ended, so that no job is left out. Measures that need the jobs' own records are NaN
without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures.cluster.beside import beside_servers, shared_use
from analysis.measures.cluster.comparing import SAME_JOB
from analysis.measures.cluster.granted import granted_use
from analysis.measures.cluster.hosts import busy_shares
from analysis.measures.cluster.jobs import job_times
from analysis.measures.cluster.learning import Learning
from analysis.measures.cluster.per_task import use_per_task
from analysis.measures.cluster.straggling import Straggling, straggling
from analysis.measures.cluster.summary import summarise_cluster
from analysis.measures.metrics import CONVERGED
from analysis.measures.small_samples import median
from analysis.measures.work import STRAGGLER_FRAC
from analysis.records.cluster import MOVED, Cluster

SHORT, LONGER = 10, 50
"""Iterations that divide episodes, as in STAR's figure 7."""
SOME = (0.02, 0.19)
"""Shares of a job's episodes between which figure 7 counts it."""
ONE, MANY = 1, 5
"""Parameter servers on a host that figure 9 compares; on workers' hosts (figure 10) ``MANY`` is 3 or more."""


@dataclass(frozen=True, eq=False)
class Digest:
    """One run: its record and what is measured of it."""

    cluster: Cluster
    times: pd.DataFrame
    found: Straggling | None
    summary: dict[str, Any]

    @cached_property
    def learning(self) -> Learning:
        """Return what the jobs have learnt; it is read at the first call."""
        return Learning(self.cluster)

    @cached_property
    def use(self) -> dict[str, float]:
        """Return what a task of each role uses; it is read at the first call."""
        return use_per_task(self.cluster)

    @cached_property
    def use_of_given(self) -> dict[str, float]:
        """Return how much of its given cores a role uses; it is read at the first call."""
        return granted_use(self.cluster)

    @cached_property
    def beside(self) -> pd.DataFrame:
        """Workers next to other jobs' servers; likewise."""
        return beside_servers(self.cluster)

    @cached_property
    def use_beside(self) -> dict[str, float]:
        """How busy the hosts of such servers are; likewise."""
        return shared_use(self.cluster)

    @property
    def is_done(self) -> bool:
        """Whether every job has completed."""
        return bool(self.cluster.status == "done" and self.times["completed"].all())


Measure = Callable[[Digest], float]


def digest(cluster: Cluster) -> Digest:
    """Read the jobs' records, one after another."""
    times, found = job_times(cluster), straggling(cluster)
    return Digest(cluster, times, found, summarise_cluster(cluster, times, found))


def _time(times: str, statistic: str) -> Measure:
    def measure(run: Digest) -> float:
        value = run.summary[times][statistic]
        return float(value) if value is not None else inf if len(run.times) else nan

    return measure


def _number(name: str, otherwise: float = nan) -> Measure:
    def measure(run: Digest) -> float:
        value = run.summary[name]
        return otherwise if value is None else float(value)

    return measure


def _straggling(name: str, part: str | None = None) -> Measure:
    """A number of the summary's ``stragglers``; ``part`` of it if it has several."""

    def measure(run: Digest) -> float:
        value = (run.summary["stragglers"] or {}).get(name)
        value = value.get(part) if isinstance(value, dict) and part else value
        return nan if value is None else float(value)

    return measure


def _of_jobs(name: str) -> Measure:
    """A share of (worker, iteration) pairs, over all jobs, each with the weight of its compared pairs."""

    def measure(run: Digest) -> float:
        jobs = run.found.jobs if run.found else pd.DataFrame()
        if not len(jobs):
            return nan
        known = jobs[jobs[name].notna()]
        weight = known["compared"] * known["workers"]
        return float((known[name] * weight).sum() / weight.sum()) if len(known) else nan

    return measure


def _cause(name: str) -> Measure:
    """Share of the seconds lost to stragglers in episodes of this cause."""

    def measure(run: Digest) -> float:
        lost = (run.summary["stragglers"] or {}).get("causes_lost_s") or {}
        return float(lost.get(name, 0.0)) / sum(lost.values()) if sum(lost.values()) else nan

    return measure


def stragglers_per_job(run: Digest) -> float:
    """Number of (worker, iteration) pairs that straggle, per job: STAR's "number of stragglers" (figure 22)."""
    if run.found is None or not len(run.found.jobs):
        return nan
    return float(run.found.episodes["iterations"].sum()) / len(run.found.jobs)


def episodes_per_job(run: Digest) -> float:
    """Episodes of straggling, over all jobs with a record of iterations; NaN if there are none."""
    return nan if run.found is None or not len(run.found.jobs) else len(run.found.episodes) / len(run.found.jobs)


def jobs_short_frac(run: Digest) -> float:
    """Share of all jobs that have stragglers, none of which lasts for more than ``SHORT`` iterations (figure 7)."""
    if run.found is None or not len(run.found.jobs):
        return nan
    longest = run.found.episodes.groupby("job")["iterations"].max()
    return float((longest <= SHORT).sum() / len(run.found.jobs))


def jobs_some_longer_frac(run: Digest) -> float:
    """Share of all jobs in which a share within ``SOME`` of the episodes lasts ``SHORT`` to ``LONGER`` iterations."""
    if run.found is None or not len(run.found.jobs):
        return nan
    lot = run.found.episodes
    longer = (lot["iterations"] > SHORT) & (lot["iterations"] <= LONGER)
    shares = longer.groupby(lot["job"]).mean()
    return float(shares.between(*SOME).sum() / len(run.found.jobs))


def completed_frac(run: Digest) -> float:
    """Share of all jobs that were submitted which completed (DLRover, figure 11)."""
    return float(run.times["completed"].mean()) if len(run.times) else nan


def converged_frac(run: Digest) -> float:
    """Share of all jobs that ended because their metric had converged (``stop_at_convergence``)."""
    return float(run.times["reason"].str.endswith(CONVERGED).mean()) if len(run.times) else nan


def moves_per_job(run: Digest) -> float:
    """Tasks that were restarted on another host, per job."""
    return float((run.cluster.spans["ended"] == MOVED).sum()) / len(run.times) if len(run.times) else nan


def _rise(resource: str, limit_frac: float) -> Measure:
    """Return how much more often a host with ``MANY`` servers or more is that busy than one with ``ONE`` (figure 9)."""

    def measure(run: Digest) -> float:
        few, many = (busy_shares(run.cluster, resource, limit_frac, number) for number in ((ONE, ONE), (MANY, None)))
        return many - few

    return measure


def beside_servers_rise_frac(run: Digest) -> float:
    """Return how much more often workers straggle beside 3 or more servers on their host than beside 1 (figure 10)."""
    if run.found is None:
        return nan
    table = run.found.deviations
    shares = []
    for kind in ("servers=1", "servers=3"):
        mine = table[table["kind"] == kind]
        total = mine["count"].sum()
        shares.append(mine.loc[mine["up_to"] > STRAGGLER_FRAC, "count"].sum() / total if total else nan)
    return float(shares[1] - shares[0])


def _use_of_given(role: str) -> Measure:
    """Used over given core-seconds (DLRover, section 6.4)."""
    return lambda run: run.use_of_given[role]


def _per_task(name: str) -> Measure:
    return lambda run: run.use[name]


def _server_over_worker(name: str) -> Measure:
    """Return how much more a server uses than a worker, as a fraction of the worker's use (STAR, figure 8)."""

    def measure(run: Digest) -> float:
        worker = run.use[f"worker_{name}"]
        return run.use[f"server_{name}"] / worker - 1.0 if worker else nan

    return measure


def _beside(name: str) -> Measure:
    """The mean over workers next to another job's server (STAR, figure 11)."""
    return lambda run: float(run.beside[name].mean()) if len(run.beside) else nan


def _use_beside(name: str) -> Measure:
    """How busy such hosts are, on average."""
    return lambda run: run.use_beside[name]


def paired_ratio(ours: pd.DataFrame, theirs: pd.DataFrame) -> float:
    """Median over jobs of the completion time relative to the same job in the other run; NaN without such jobs.

    A job that ended in neither has no ratio; infinite over finite is infinite.
    """
    keys = [name for name in SAME_JOB if name != "seed"]
    both = ours.merge(theirs, on=keys, suffixes=("", "_theirs"))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = both["jct_s"] / both["jct_s_theirs"]
    return median(ratios.dropna()) if ratios.notna().any() else nan


CLUSTER_MEASURES: dict[str, Measure] = {
    "jct_mean_s": _time("jct_s", "mean"),
    "jct_median_s": _time("jct_s", "median"),
    "run_mean_s": _time("run_s", "mean"),
    "queue_mean_s": _time("queue_s", "mean"),
    "makespan_s": _number("makespan_s", inf),
    **{name: _number(name) for name in ("gpu_use_frac", "granted", "refused")},
    "straggler_iterations_frac": _straggling("iterations_with_straggler_frac"),
    "jobs_any_frac": _straggling("jobs_any_frac"),
    "jobs_above_half_frac": _straggling("jobs_above_half_frac"),
    "job_most_frac": _straggling("job_max_frac"),
    **{
        f"{step}_{kind}_frac": _straggling(f"{step}_{kind}_frac")
        for step in ("data", "compute", "communication")
        for kind in ("any", "above_half")
    },
    "delay_frac": _straggling("delay_frac"),
    "waste_frac": _straggling("waste_frac"),
    "communication_half_frac": _of_jobs("communication_half_frac"),
    "rise_frac": _of_jobs("rise_frac"),
    "fall_frac": _of_jobs("fall_frac"),
    "completed_frac": completed_frac,
    **{f"{role}_cores_used_frac": _use_of_given(role) for role in ("worker", "server", "node")},
    "moves_per_job": moves_per_job,
    "converged_frac": converged_frac,
    "converged_metric_mean": lambda run: run.learning.mean_metric(),
    "perplexity_mean": lambda run: run.learning.perplexity(),
    "stragglers_per_job": stragglers_per_job,
    "episodes_per_job": episodes_per_job,
    "episode_median_iterations": _straggling("episode_iterations", "median"),
    "episode_longest_s": _straggling("episode_s", "longest"),
    "jobs_short_frac": jobs_short_frac,
    "jobs_some_longer_frac": jobs_some_longer_frac,
    **{f"lost_{cause}_frac": _cause(cause) for cause in ("processor", "link", "servers", "peers")},
    **{
        f"{resource}_above_{limit}_rise_frac": _rise(resource, limit / 100)
        for resource in ("cpu", "link")
        for limit in (90, 98)
    },
    "beside_servers_rise_frac": beside_servers_rise_frac,
    **{
        f"{who}_{what}": _per_task(f"{who}_{what}")
        for who in ("server", "worker", "used")
        for what in ("cores", "bytes_per_s")
    },
    "server_cores_over_worker_frac": _server_over_worker("cores"),
    "server_bytes_over_worker_frac": _server_over_worker("bytes_per_s"),
    "beside_server_s": _beside("time_s"),
    "beside_server_straggler_frac": _beside("straggler_frac"),
    **{f"beside_server_{name}": _use_beside(name) for name in ("cpu_frac", "link_frac")},
}
