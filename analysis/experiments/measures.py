"""The measures that an experiment takes of one run: functions of the record, in seconds or plain fractions."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf, nan

import numpy as np
import pandas as pd

from analysis.experiments.elastic_measures import ELASTIC_MEASURES
from analysis.experiments.following_measures import FOLLOWING_MEASURES
from analysis.experiments.host_measures import HOST_MEASURES
from analysis.measures import deciding, targets, work
from analysis.measures.injections import FLOAT_BYTES
from analysis.measures.metrics import has_completed, jct_s, summarise
from analysis.records.load import Run

Measure = Callable[[Run], float]
FIRST_S = 60.0
"""Seconds of the job over which jobs of different lengths are compared."""
SERVING = "server"
"""Role of the tasks that hold parameters."""
SETTLED = 5
"""Number of first iterations of a worker that are ignored in measuring its speed."""


def wait_frac(run: Run) -> float:
    """Share of the workers' time spent waiting (idle before synchronisation)."""
    return work.wait_frac(work.time_spent(run.tables.iterations))


def idle_frac(run: Run) -> float:
    """Share of the time until the slowest was ready in which workers were idle, in the second half of the run."""
    rows = work.with_samples(run.tables.iterations)
    rows = rows[(rows["t"] > jct_s(run) / 2) & (rows["fate"] == "applied")]
    times = rows.groupby("applied_version")["iter_s"]
    slowest = times.max() * times.count()
    return float((slowest - times.sum()).sum() / slowest.sum()) if len(slowest) else nan


def bpt_s(run: Run) -> float:
    """Median batch processing time of full batches."""
    rows = work.with_samples(run.tables.iterations)
    rows = rows[rows["samples"] == rows["assigned_samples"]]
    return float(rows["bpt_s"].median()) if len(rows) else nan


def throughput(run: Run) -> float:
    """Samples applied per second of the job."""
    rows = run.tables.iterations
    return float(rows.loc[rows["fate"] == "applied", "samples"].sum()) / jct_s(run)


def shards_missing(run: Run) -> float:
    """Number of shards that should be DONE and are not; 0 means data integrity (AntDT section VII-D2)."""
    end = run.finished
    if end is None or end.shards_total is None or end.shards_done is None:
        return nan
    return float(end.shards_total - end.shards_done)


def consumption(run: Run) -> pd.DataFrame:
    """Return for each worker: ``samples`` applied, ``shards`` of them, its own ``samples_per_s`` (waiting excluded)."""
    rows = work.with_samples(run.tables.iterations)
    groups = rows.groupby("worker")
    shard = max(1.0, float(run.job["num_samples"]) / max(1, int(run.job["num_shards"])))
    samples = rows[rows["fate"] == "applied"].groupby("worker")["samples"].sum()
    busy_s = groups["iter_s"].sum() + groups["pull_s"].sum()
    frame = pd.DataFrame({"samples": samples, "shards": samples / shard})
    return frame.assign(samples_per_s=groups["samples"].sum() / busy_s).dropna()


def shards_pearson(run: Run) -> float:
    """Correlation of shards per worker with the workers' throughput (AntDT figure 16)."""
    frame = consumption(run)
    if len(frame) < 3 or frame["shards"].nunique() < 2:
        return nan
    return float(np.corrcoef(frame["shards"], frame["samples_per_s"])[0, 1])


def server_rates(run: Run) -> pd.DataFrame:
    """``t``, ``server``, ``bpt_s``: seconds per update, as servers report them."""
    rows = run.tables.server_busy
    rows = rows[rows["updates"] > 0]
    return pd.DataFrame({"t": rows["t"], "server": rows["server"], "bpt_s": rows["busy_s"] / rows["updates"]})


def throughput_over_time(run: Run, bins: int = 60) -> pd.DataFrame:
    """``t`` (middle of a bin) and ``samples_per_s`` applied in it."""
    rows = run.tables.updates
    rows = rows[~rows["void"]]
    edges = np.linspace(0.0, max(jct_s(run), 1e-9), bins + 1)
    total, _ = np.histogram(rows["t"], edges, weights=rows["samples"])
    return pd.DataFrame({"t": (edges[1:] + edges[:-1]) / 2, "samples_per_s": total / (edges[1] - edges[0])})


def restart_s(run: Run) -> tuple[float, float]:
    """Times when the first node was lost and when the last one was back; NaN without a restart."""
    rows = run.tables.restarts
    gone = rows.loc[rows["what"].isin(["Lost", "ServerLost"]), "t"]
    back = rows.loc[rows["what"].isin(["Joined", "Restored"]), "t"]
    return (float(gone.min()), float(back.max())) if len(gone) and len(back) else (nan, nan)


def rebound(run: Run) -> float:
    """Throughput after the restarts / before them; more than 1: it recovered (AntDT figure 14)."""
    gone, back = restart_s(run)
    rows = run.tables.updates
    rows, end = rows[~rows["void"]], jct_s(run)
    if not 0 < gone <= back < end:
        return nan
    before = rows.loc[rows["t"] < gone, "samples"].sum() / gone
    after = rows.loc[rows["t"] > back, "samples"].sum() / (end - back)
    return float(after / before) if before > 0 else nan


def server_bpt_ratio(run: Run) -> float:
    """Time per update of the slowest server after the restarts / before them; less than 1: it recovered."""
    gone, back = restart_s(run)
    rows = server_rates(run)
    before = rows[rows["t"] < gone].groupby("server")["bpt_s"].median()
    after = rows[rows["t"] > back].groupby("server")["bpt_s"].median()
    if before.empty or after.empty:
        return nan
    slowest = before.idxmax()
    return float(after[slowest] / before[slowest]) if slowest in after else nan


def restarted_bpt_ratio(run: Run) -> float:
    """BPT of the first restarted worker after its return / the others' median; about 1: recovered (AntDT figure 13)."""
    rows = run.tables.restarts
    gone = rows[(rows["what"] == "Lost") & (rows["role"] == "worker")]
    if gone.empty:
        return nan
    worker = int(gone["id"].iloc[0])
    back = rows.loc[(rows["what"] == "Joined") & (rows["id"] == worker), "t"]
    if back.empty:
        return nan
    later = work.with_samples(run.tables.iterations)
    later = later[later["t"] > float(back.min())]
    own, others = later[later["worker"] == worker]["bpt_s"], later[later["worker"] != worker]["bpt_s"]
    return float(own.iloc[SETTLED:].median() / others.median()) if len(own) > SETTLED and len(others) else nan


def slowest_before(run: Run) -> float:
    """BPT of the slowest worker / the others' median, before the first restart."""
    gone, _ = restart_s(run)
    rows = work.with_samples(run.tables.iterations)
    means = rows[rows["t"] < (gone if gone == gone else jct_s(run))].groupby("worker")["bpt_s"].mean()
    return float(means.max() / means.drop(means.idxmax()).median()) if len(means) > 1 else nan


def restarts(run: Run) -> float:
    """Number of nodes that were lost during the run."""
    return float(run.tables.restarts["what"].isin(["Lost", "ServerLost"]).sum())


def decide_frac(run: Run) -> float:
    """Time of all decisions / JCT: data-service state and actions together (AntDT section VII-E); NaN: not measured."""
    return deciding.decide_s(run) / jct_s(run)


def solve_s(run: Run) -> float:
    """The longest decision upon a timer: monitoring, flags and the solver; NaN where that was not measured."""
    rows = run.tables.decisions
    longest_us = float(rows.loc[rows["event"] == "Woke", "decide_us"].max())
    return longest_us * 1e-6 if longest_us > 0 else nan


def slowest_bpt_ratio(run: Run) -> float:
    """Largest mean BPT of a worker / median of all workers' means (AntDT figure 1)."""
    means = work.with_samples(run.tables.iterations).groupby("worker")["bpt_s"].mean()
    return float(means.max() / means.median()) if len(means) else nan


def final_metric(run: Run) -> float:
    """The held-out metric after the last update; NaN where the summary has none (no gradients, no evaluation)."""
    value = summarise(run)["final_metric"]
    return nan if value is None else float(value)


def update_s(run: Run) -> float:
    """Seconds per update of the whole job, hence per iteration if it has rounds; infinite if it was cut off."""
    updates = int((~run.tables.updates["void"]).sum())
    return jct_s(run) / updates if has_completed(run) and updates else inf


def use_frac(run: Run) -> float:
    """Share of the workers' time spent computing: sum of compute_i / (workers x JCT), without injected delays.

    Wang et al. (ICDCS 2019), section VI-A2, whose formula is missing; computation whose result is discarded counts.
    """
    return float(computing_s(run).sum() / (int(run.job["num_workers"]) * jct_s(run)))


def use_weighted_frac(run: Run) -> float:
    """The same, with every worker weighted by the speed of its device."""
    devices = run.job.get("devices")
    if not devices:
        return use_frac(run)
    speeds = 1.0 / pd.Series([device["per_sample_s"] for device in devices])
    return float((computing_s(run) * speeds).sum() / (speeds.sum() * jct_s(run)))


def computing_s(run: Run) -> pd.Series:
    """Seconds by worker; workers that never answered are left out."""
    rows = work.with_samples(run.tables.iterations)
    return (rows["compute_s"] - rows["injected_s"]).groupby(rows["worker"]).sum()


def stalled_frac(run: Run) -> float:
    """Share of the workers' steps, first ones excluded, that they were held before for over a hundredth of the step."""
    rows = work.with_samples(run.tables.iterations)
    rows = rows[rows["iteration"] > rows.groupby("worker")["iteration"].transform("min")]
    return float((rows["wait_s"] > 0.01 * rows["iter_s"]).mean()) if len(rows) else nan


def mean_loss(run: Run) -> float:
    """Mean held-out loss over the job's time (linear between evaluations); lower: it fell sooner or deeper."""
    curve = targets.scores(run.tables.evaluations, "loss")
    if len(curve) < 2:
        return nan
    t = curve["asked_s"].to_numpy()
    return float(np.trapezoid(curve["value"], t) / (t[-1] - t[0]))


def delay_mean(run: Run) -> float:
    """Mean staleness of the applied gradients, in versions."""
    return float(work.staleness(run.tables.iterations).mean())


def delay_std(run: Run) -> float:
    """Standard deviation of their staleness, in versions."""
    return float(work.staleness(run.tables.iterations).std(ddof=0))


def delay_max(run: Run) -> float:
    """Largest staleness of an applied gradient, in versions."""
    return float(work.staleness(run.tables.iterations).max())


def to_update_s(run: Run) -> float:
    """Mean seconds from the moment at which a gradient was ready to its update; NaN if none was applied."""
    rows = work.with_samples(run.tables.iterations)
    rows = rows[rows["fate"] == "applied"]
    ready_s = rows["start_s"] + rows[["wait_s", "pull_s", "data_s", "compute_s"]].sum(axis="columns")
    return float((rows["applied_t"] - ready_s).mean())


def dropped_frac(run: Run) -> float:
    """Gradients that were dropped, held ones that never arrived included, over those and the applied ones."""
    fate = run.tables.iterations["fate"]
    dropped, applied = int((fate == "dropped").sum()) + run.contents.discarded, int((fate == "applied").sum())
    return dropped / (dropped + applied) if dropped + applied else nan


def lost_frac(run: Run) -> float:
    """Share of the bytes of all sums that bounds cut off (``topology.bound_s``)."""
    notes, updates = run.tables.notes, int((~run.tables.updates["void"]).sum())
    late = [json.loads(fields) for fields in notes.loc[notes["type"] == "Late", "fields"]]
    return sum(one["lost_bytes"] / one["sum_bytes"] for one in late) / updates if updates else nan


def update_tail(run: Run) -> float:
    """99th percentile of the seconds between two updates, over their median."""
    gaps = np.diff(run.tables.updates.loc[~run.tables.updates["void"], "t"].to_numpy(float))
    return float(np.percentile(gaps, 99) / np.median(gaps)) if len(gaps) else nan


def cut_frac(run: Run) -> float:
    """Share of the samples of applied batches that iterations left out which ended early."""
    rows = run.tables.iterations
    rows = rows[rows["fate"] == "applied"]
    return float(rows["cut_samples"].sum() / rows["assigned_samples"].sum()) if len(rows) else nan


def vectors_per_batch(run: Run) -> float:
    """Vectors into the servers per applied batch of a worker: less than 1 where gradients were summed on the way.

    Of strategies with one vector per update. Batches are counted by samples, and the short ones of an epoch's end as
    parts of one.
    """
    rows, batch = run.tables.updates, float(run.tables.iterations["assigned_samples"].median())
    rows = rows[~rows["void"]]
    return float(len(rows) * batch / rows["samples"].sum()) if len(rows) else nan


def link_vectors_per_batch(run: Run) -> float:
    """Vectors into the hosts of servers per applied batch of a worker, by the counters of their links.

    Live all bytes at the network interface, headers included; on the virtual clock the payload sent. While it was
    sampled.
    """
    hosts = run.meta["machine"].get("hosts") or []
    serving = {
        f"host:{host['number']}" for host in hosts if any(task.startswith(f"{SERVING}:") for task in host["tasks"])
    }
    nodes, updates = run.tables.nodes, run.tables.updates
    sampled = nodes[nodes["node"].isin(serving)]
    size = None if run.finished is None else run.finished.num_parameters
    if not len(sampled) or not size:
        return nan
    begin_s, end_s = float((sampled["t"] - sampled["period_s"]).min()), float(sampled["t"].max())
    within = updates[~updates["void"] & (updates["t"] > begin_s) & (updates["t"] <= end_s)]
    batches = within["samples"].sum() / float(run.tables.iterations["assigned_samples"].min())  # sums have several
    num_bytes = float((sampled["in_bytes_per_s"] * sampled["period_s"]).sum())
    return num_bytes / (FLOAT_BYTES * size) / batches if batches else nan


def error_by_updates(run: Run) -> float:
    """1 - metric, as the mean over the job's applied samples: a curve against iterations as one number."""
    return 1.0 - score_by_updates(run)


def error_first_min(run: Run) -> float:
    """1 - metric, as the mean over the job's first minute: a curve against time as one number."""
    return 1.0 - score_first_min(run)


def nats_by_updates(run: Run) -> float:
    """Minus the metric, a log-likelihood, as the mean over the job's applied samples; in nats, less is better."""
    return -score_by_updates(run)


def nats_first_min(run: Run) -> float:
    """The same over the job's first minute."""
    return -score_first_min(run)


def score_by_updates(run: Run) -> float:
    """Mean of the metric over the applied samples (linear between evaluations); NaN with less than two evaluations."""
    curve, rows = scores(run), run.tables.updates
    rows = rows[~rows["void"]]
    applied = np.concatenate([[0.0], np.cumsum(rows["samples"].to_numpy(float))])
    asked = np.searchsorted(rows["t"].to_numpy(float), curve["asked_s"].to_numpy(float), side="right")
    return _mean(applied[asked], curve["value"].to_numpy(float))


def score_first_min(run: Run) -> float:
    """Mean of the metric over the first 60 s; all of a longer job would count its trained end for it.

    A job that has ended before keeps its last value.
    """
    curve = scores(run)
    if curve.empty:
        return nan
    t, values = curve["asked_s"].to_numpy(float), curve["value"].to_numpy(float)
    within = t < FIRST_S
    return _mean(np.append(t[within], FIRST_S), np.append(values[within], np.interp(FIRST_S, t, values)))


def _mean(x: np.ndarray, values: np.ndarray) -> float:
    """Mean of a curve that is linear between its points."""
    return float(np.trapezoid(values, x) / (x[-1] - x[0])) if len(x) > 1 and x[-1] > x[0] else nan


def scores(run: Run) -> pd.DataFrame:
    """``asked_s`` and ``value`` of the job's metric."""
    return targets.scores(run.tables.evaluations, str(run.job["metric"]))


def target_s(run: Run) -> float:
    """Time to accuracy: until the metric reaches the job's own ``target``; infinite if it never does."""
    job = run.job
    if job.get("target") is None:
        return nan
    return targets.tta_s(scores(run), float(job["target"]), *targets.rule_of(job))


def converged_metric(run: Run) -> float:
    """The value that the metric converged to (:func:`analysis.measures.targets.converged_value`)."""
    return targets.converged_value(scores(run))


def perplexity(run: Run) -> float:
    """Perplexity of the held-out classes at the loss that the job converged to."""
    return float(np.exp(targets.converged_value(targets.scores(run.tables.evaluations, "loss"))))


def gain_after(run: Run, version: int, for_s: float) -> float:
    """Increase of the metric in the ``for_s`` after an update (STAR Table I); NaN if the job ended before."""
    rows = run.tables.updates
    rows = rows[~rows["void"] & (rows["version"] == version)]
    return targets.gain(scores(run), float(rows["t"].iloc[0]), for_s) if len(rows) else nan


MEASURES: dict[str, Measure] = {
    "jct_s": jct_s,
    "wait_frac": wait_frac,
    "idle_frac": idle_frac,
    "bpt_s": bpt_s,
    "throughput": throughput,
    "shards_missing": shards_missing,
    "shards_pearson": shards_pearson,
    "rebound": rebound,
    "server_bpt_ratio": server_bpt_ratio,
    "restarted_bpt_ratio": restarted_bpt_ratio,
    "slowest_before": slowest_before,
    "restarts": restarts,
    "decide_frac": decide_frac,
    "solve_s": solve_s,
    "choice_s": deciding.choice_s,
    "decide_s": deciding.decide_s,
    "scoring_s": deciding.scoring_s,
    "decision_s": deciding.decision_s,
    "paused_s": deciding.paused_s,
    "target_s": target_s,
    "slowest_bpt_ratio": slowest_bpt_ratio,
    "final_metric": final_metric,
    "update_s": update_s,
    "use_frac": use_frac,
    "use_weighted_frac": use_weighted_frac,
    "stalled_frac": stalled_frac,
    "mean_loss": mean_loss,
    "converged_metric": converged_metric,
    "perplexity": perplexity,
    "delay_mean": delay_mean,
    "delay_std": delay_std,
    "delay_max": delay_max,
    "to_update_s": to_update_s,
    "dropped_frac": dropped_frac,
    "cut_frac": cut_frac,
    "lost_frac": lost_frac,
    "update_tail": update_tail,
    "vectors_per_batch": vectors_per_batch,
    "link_vectors_per_batch": link_vectors_per_batch,
    "error_by_updates": error_by_updates,
    "error_first_min": error_first_min,
    "nats_by_updates": nats_by_updates,
    "nats_first_min": nats_first_min,
    **ELASTIC_MEASURES,
    **HOST_MEASURES,
    **FOLLOWING_MEASURES,
}
