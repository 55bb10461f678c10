"""Ground truth for straggler predictions: which iterations of which worker straggled (pure).

Three truths. ``realised``: the iteration took too long, for any reason. ``plan``: a disturbance of the plan covers it,
whether that made it long or not. ``faults``: the same, but what all workers are due to have by turns is no fault of
one: the lengths of its sequences, pauses of its interpreter, chance in every iteration.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.measures.injections import SLEPT, workers_of
from analysis.measures.work import STRAGGLER_FRAC, with_samples
from analysis.records.load import RecordError, Run
from analysis.records.nodes import number_of, parse_node, role_of
from strategies.protocol import Started

LABELS = ("realised", "plan", "faults")
BY_TURNS = ("pauses", "power_law", "sequence_lengths")
"""Names of the patterns that are no fault of the worker that they slow down; a run may rename its own."""
NOT_SLOWER = ("kill",)
"""Kinds that abort an iteration instead of lengthening it."""
SAME_S = 1e-9
"""Tolerance: an iteration that begins when another ends did not begin before (rows store the time as a difference)."""

Losses = list[tuple[float, int]]


def timed_iterations(run: Run) -> pd.DataFrame:
    """The timed iterations: ``worker``, ``iteration``, ``begun_s``, ``t``, ``iter_s``, and their resources.

    That is ``cpu``, ``memory``, ``samples``, ``cpu_frac`` (NaN if the record does not say how much processor time an
    iteration took) and ``bytes_per_s`` (NaN if it does not say how large the model is).

    In order of their ends. Full batches only, as in :func:`analysis.measures.work.deviations`. ``begun_s`` is when the
    Compute was carried out, ``t`` when the gradient arrived; ``cpu`` (cores) and ``memory`` (bytes) are the worker's
    latest telemetry at that time, 1 without any.

    Raises:
        RecordError: there are none.
    """
    rows = with_samples(run.tables.iterations)
    rows = rows[(rows["samples"] == rows["assigned_samples"]) & (rows["iter_s"] > 0)]
    if not len(rows):
        raise RecordError(f"{run.path}: holds no iteration of a worker on a whole batch. Score a run that trained")
    rows = _with_received(rows.rename(columns={"issued_s": "begun_s"}), run)
    rows = _with_resources(rows.sort_values("t", kind="stable", ignore_index=True), run.tables.nodes)
    return rows.assign(work=_work(rows, run))


def _with_received(rows: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Rates over each iteration: processor seconds per second, bytes per second of sending."""
    started = next((line.event for line in run.notable_lines if isinstance(line.event, Started)), None)
    num_bytes = np.nan if started is None or started.model_bytes is None else float(started.model_bytes)
    cpu_frac = rows["cpu_s"].astype("float64") / rows["iter_s"]
    bytes_per_s = num_bytes / rows["send_s"].where(rows["send_s"] > 0)
    rows = rows.assign(cpu_frac=cpu_frac.where(cpu_frac > 0), bytes_per_s=bytes_per_s)
    kept = ["worker", "iteration", "begun_s", "t", "iter_s", "cpu_frac", "bytes_per_s", "samples", "data_s", "send_s"]
    return rows[kept]


def _with_resources(rows: pd.DataFrame, nodes: pd.DataFrame) -> pd.DataFrame:
    telemetry = nodes[role_of(nodes["node"]) == "worker"] if len(nodes) else nodes
    if not len(telemetry):
        return rows.assign(cpu=1.0, memory=1.0)
    telemetry = telemetry.assign(worker=number_of(telemetry["node"]))
    telemetry = telemetry.rename(columns={"cpu_cores": "cpu", "memory_bytes": "memory"})[
        ["t", "worker", "cpu", "memory"]
    ]
    joined = pd.merge_asof(rows, telemetry.sort_values("t", kind="stable"), on="t", by="worker")
    return joined.fillna({"cpu": 1.0, "memory": 1.0})


def losses(run: Run) -> Losses:
    """(time, worker) of every lost worker, in order."""
    rows = run.tables.restarts
    rows = rows[(rows["what"] == "Lost") & (rows["role"] == "worker")]
    return [(float(t), int(worker)) for t, worker in zip(rows["t"], rows["id"], strict=True)]


def realised_labels(rows: pd.DataFrame, lost: Losses, tolerance_frac: float = STRAGGLER_FRAC) -> pd.Series:
    """Whether each iteration took more than ``tolerance_frac`` longer than the fastest worker's (nullable boolean).

    At its end it is compared with the last iteration that each other worker had begun by then, which may still be in
    progress. Under a barrier that is the same round (STAR's iteration); without one it is what the others were doing at
    the time. A worker's iterations before it was lost do not count. Null if there is no other worker to compare with.

    Args:
        rows: from :func:`timed_iterations`.
        lost: from :func:`losses`.
        tolerance_frac: part of the fastest one's time.
    """
    end, worker, own_s = (rows[name].to_numpy() for name in ("t", "worker", "iter_s"))
    fastest_s, others = own_s.copy(), np.zeros(len(rows), dtype="int64")
    for peer in np.unique(worker):
        theirs = rows[worker == peer].sort_values("begun_s", kind="stable")
        seconds = _last_begun_s(theirs, np.array([t for t, gone in lost if gone == peer]), end)
        counts = np.isfinite(seconds) & (worker != peer)
        others += counts
        fastest_s = np.where(counts, np.minimum(fastest_s, seconds), fastest_s)
    slow = pd.Series((own_s - fastest_s) / fastest_s > tolerance_frac, index=rows.index, dtype="boolean")
    return slow.mask(others == 0)


def _last_begun_s(theirs: pd.DataFrame, lost_s: np.ndarray, at_s: np.ndarray) -> np.ndarray:
    """Seconds of the last iteration begun before ``at_s``; infinite if there is none since the last loss."""
    begun, seconds = theirs["begun_s"].to_numpy(), theirs["iter_s"].to_numpy()
    place = np.searchsorted(begun, at_s - SAME_S, side="left") - 1
    since = np.concatenate([[-np.inf], lost_s])[np.searchsorted(lost_s, at_s, side="right")]
    valid = (place >= 0) & (begun[place] >= since)
    return np.where(valid, seconds[place], np.inf)


def windows(run: Run) -> pd.DataFrame:
    """The plan by worker: ``worker``, ``start_s``, ``end_s``, ``slept`` (added to iterations that begin within).

    A host's or link's disturbance counts for every worker there. Disturbances of servers are left out, as they slow all
    workers alike; kills are left out, as they leave no slow iteration.
    """
    plan = run.plan[~run.plan["kind"].isin(NOT_SLOWER)]
    workers = {target: sorted(own) for target, own in workers_of(run, plan["target"].unique()).items()}
    found = plan.assign(worker=plan["target"].map(workers), slept=plan["kind"].isin(SLEPT))
    found = found[["worker", "start_s", "end_s", "slept"]].explode("worker", ignore_index=True)
    kinds = {"worker": "int64", "start_s": "float64", "end_s": "float64", "slept": "bool"}
    return found[found["worker"].notna()].reset_index(drop=True).astype(kinds)  # a server's has no worker


def truth(run: Run, rows: pd.DataFrame, labels: str, tolerance_frac: float = STRAGGLER_FRAC) -> pd.Series:
    """The label of each of ``rows`` (nullable boolean), by one of ``LABELS``."""
    if labels == "realised":
        return realised_labels(rows, losses(run), tolerance_frac)
    return planned_labels(rows, labelled_windows(run, labels))


def labelled_windows(run: Run, labels: str) -> pd.DataFrame:
    """As :func:`windows`; for ``faults`` without what is no fault of a worker."""
    faultless = labels == "faults" and run.plan.attrs.get("pattern") in BY_TURNS
    return windows(replace(run, plan=run.plan[:0]) if faultless else run)  # such a plan has a window per iteration


def locate(run: Run, rows: pd.DataFrame, plan: pd.DataFrame) -> pd.DataFrame:
    """Where each of ``rows`` straggles, if it does: ``place`` and ``part``, as :func:`prediction.places` reads them.

    ``plan``: from :func:`labelled_windows`. The part is that which the kind of disturbance slows down; where several
    kinds are planned it is unknown (empty).
    """
    place = rows["worker"].to_numpy().copy()
    for mine in workers_of(run, run.plan["target"].unique() if len(plan) else ()).values():
        if len(mine) > 1:
            place[np.isin(place, list(mine))] = -1 - min(mine)
    kinds = {kind for kind in run.plan["kind"].unique() if kind not in NOT_SLOWER}
    parts = {"send" if kind == "bandwidth" else "compute" for kind in kinds}
    return pd.DataFrame({"place": place, "part": parts.pop() if len(parts) == 1 else ""}, index=rows.index)


def _work(rows: pd.DataFrame, run: Run) -> pd.Series:
    """Work of each iteration relative to one without sequences, which a job knows beforehand; NaN if it has none."""
    if run.plan.attrs.get("pattern") != "sequence_lengths":
        return pd.Series(np.nan, index=rows.index)
    work = np.ones(len(rows))
    for target, plan in run.plan.sort_values("start_s", kind="stable").groupby("target"):
        mine = np.flatnonzero(rows["worker"] == parse_node(str(target)).number)
        begun, starts, ends = rows["begun_s"].to_numpy()[mine], plan["start_s"].to_numpy(), plan["end_s"].to_numpy()
        place = np.searchsorted(starts, begun, side="right") - 1
        met = (place >= 0) & (begun < ends[place])
        work[mine[met]] += plan["magnitude"].to_numpy()[place[met]]
    return pd.Series(work, index=rows.index)


def planned_labels(rows: pd.DataFrame, plan: pd.DataFrame) -> pd.Series:
    """Whether the plan covers each iteration (nullable boolean, never null).

    Sleeps cover the iterations that begin in their window; any other window covers those that it overlaps.

    Args:
        rows: from :func:`timed_iterations`.
        plan: from :func:`windows`.
    """
    begun, end, worker = (rows[name].to_numpy() for name in ("begun_s", "t", "worker"))
    covered = np.zeros(len(rows), dtype="bool")
    for (number, slept), mine in plan.groupby(["worker", "slept"]):
        here = np.flatnonzero(worker == number)
        starts, ends = np.sort(mine["start_s"].to_numpy()), np.sort(mine["end_s"].to_numpy())
        opened = np.searchsorted(starts, begun[here], side="right") if slept else np.searchsorted(starts, end[here])
        covered[here] |= opened > np.searchsorted(ends, begun[here], side="right")  # more have opened than closed
    return pd.Series(covered, index=rows.index, dtype="boolean")
