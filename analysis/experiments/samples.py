"""Distributions of a set of jobs, over its jobs, iterations or samples of hosts, for figures that show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.experiments.cluster_measures import MANY, ONE, Digest
from analysis.measures.cluster.deviations import STEPS
from analysis.measures.cluster.histogram import PERCENTS
from analysis.measures.cluster.hosts import host_samples
from analysis.measures.cluster.learning import LOSS
from analysis.measures.cluster.straggling import Straggling

COLUMNS = ("group", "value", "count")
"""A part of a distribution, a value, and how often it is there."""
SERVERS = tuple(f"servers={number}" for number in range(4))
Sample = Callable[[Digest], pd.DataFrame]
OfIterations = Callable[[Straggling], pd.DataFrame]


def _jct(run: Digest) -> list[float]:
    return list(run.times["jct_s"])


def _stragglers(run: Digest) -> list[float]:
    if run.found is None:
        return []
    pairs = run.found.episodes.groupby("job")["iterations"].sum()
    return list(pairs.reindex(run.found.jobs["job"], fill_value=0).astype("float64"))


OVER_JOBS: dict[str, Callable[[Digest], list[float]]] = {
    "jct_mean_s": _jct,
    "stragglers_per_job": _stragglers,
    "converged_metric_mean": lambda run: list(run.learning.converged_values().values()),
    "perplexity_mean": lambda run: list(np.exp(list(run.learning.converged_values(LOSS).values()))),
}
"""The values of every job, by the measure that is their mean."""


def _groups_of_kinds(frame: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """The kinds of a table of counts that have names, as groups."""
    mine = frame[frame["kind"].isin(list(names))]
    return mine.assign(group=mine["kind"].map(dict(names))).rename(columns={"up_to": "value"})


def _deviations(found: Straggling) -> pd.DataFrame:
    """Deviations of the slowest worker: by whole iterations, and by each step (STAR, figure 1)."""
    steps = _groups_of_kinds(found.others, {f"{name}_deviation": name for name in STEPS})
    return pd.concat([_groups_of_kinds(found.deviations, {"iteration": "iteration"}), steps], ignore_index=True)


def _straggler_shares(found: Straggling) -> pd.DataFrame:
    """Share of a job's iterations with a straggler; a job that never needs a step has none by it."""
    names = {"straggler_frac": "iteration"} | {f"{name}_straggler_frac": name for name in STEPS}
    jobs = found.jobs.reindex(columns=list(names)).fillna(0.0).rename(columns=names)
    return jobs.melt(var_name="group").assign(count=1)


def _kinds(kinds: Mapping[str, str], table: str = "others") -> OfIterations:
    return lambda found: _groups_of_kinds(getattr(found, table), kinds)


def _lengths(found: Straggling) -> pd.DataFrame:
    """Iterations of every episode, and of the longest of every job that has any (STAR, figure 7)."""
    each = found.episodes.assign(value=found.episodes["iterations"].astype("float64"), count=1)
    longest = each.groupby("job", as_index=False)["value"].max().assign(count=1)
    return pd.concat([each.assign(group="stragglers"), longest.assign(group="longest of a job")], ignore_index=True)


def _host_use(resource: str) -> Sample:
    """Use of hosts with ``ONE`` server and with ``MANY`` or more, by sample (STAR, figure 9)."""

    def sample(run: Digest) -> pd.DataFrame:
        found = host_samples(run.cluster, resource)
        names = np.select(
            [found["servers"] == ONE, found["servers"] >= MANY], [f"servers={ONE}", f"servers={MANY}"], ""
        )
        up_to = PERCENTS[np.searchsorted(PERCENTS, found["used_frac"])]
        return found.assign(group=names, value=up_to, count=1)[names != ""]

    return sample


def _of_iterations(make: OfIterations) -> Sample:
    """A distribution of what was found in iterations; empty if a set has none."""
    return lambda run: pd.DataFrame(columns=COLUMNS) if run.found is None else make(run.found)


SAMPLES: dict[str, Sample] = {
    "deviations": _of_iterations(_deviations),
    "straggler_shares": _of_iterations(_straggler_shares),
    "communication_share": _of_iterations(_kinds({"communication": ""})),
    "changes": _of_iterations(_kinds({"change": ""})),
    "episode_lengths": _of_iterations(_lengths),
    "host_cpu": _host_use("cpu"),
    "host_link": _host_use("link"),
    "deviations_by_servers": _of_iterations(_kinds({name: name for name in SERVERS}, "deviations")),
}
"""Distributions by the names that ``figure.shows`` uses (``cdf``)."""


def single_values(values: Sequence[float], measure: str) -> pd.DataFrame:
    """Single values of a distribution without groups; NaN (unknown) is left out."""
    known = [value for value in values if value == value]
    return pd.DataFrame({"measure": measure, "group": "", "value": known, "count": 1})


def sample(run: Digest, names: Sequence[str]) -> pd.DataFrame:
    """The distributions of these names: ``measure``, ``group``, ``value``, ``count``.

    A name of ``SAMPLES``, or a measure that is a mean over jobs; others have none.
    """
    frames = [SAMPLES[name](run)[list(COLUMNS)].assign(measure=name) for name in names if name in SAMPLES]
    frames += [single_values(OVER_JOBS[name](run), name) for name in names if name in OVER_JOBS]
    return pool([frame for frame in frames if len(frame)])


def pool(frames: Sequence[pd.DataFrame], by: Sequence[str] = ()) -> pd.DataFrame:
    """Distributions together, equal values as one row; ``by``: columns that keep them apart."""
    columns = [*by, "measure", *COLUMNS]
    if not frames:
        return pd.DataFrame(columns=columns)
    together = pd.concat(frames, ignore_index=True)[columns]
    return together.groupby(columns[:-1], as_index=False, sort=False)["count"].sum()
