"""Fit the cost model of the virtual runtime to live records.

Every parameter describes the typical case: a median, or a line, base + slope * x, through the middle
(:mod:`analysis.fitting.robust`). Its error says how well these runs determine it, not how true the model is.

On emulated hosts, computing and carrying messages cost core-seconds, determined from the processor time of the tasks
(:mod:`analysis.measures.host_work`); wall-clock times determine the rest, best in runs whose tasks have a core each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp, hypot, nan, pi, sin, sqrt
from typing import Any

import numpy as np
import pandas as pd

from analysis.fitting.estimates import BLOCK, FEWEST, FLOAT_BYTES, Calibration, put_line, put_median, too_few
from analysis.fitting.host_costs import fit_wire, fit_work, observed
from analysis.fitting.pacing import is_paced, paced_s
from analysis.fitting.ring_costs import fit_ring, has_ring, updates_of
from analysis.fitting.robust import MAD_SIGMA, Estimate, median, ordinary
from analysis.measures.host_work import has_cores, hosts_of, slowed_tasks, wire_s
from analysis.measures.neighbours import Neighbours, set_of
from analysis.records.load import RecordError, Run
from analysis.records.nodes import parse_node, server_name, worker_name
from analysis.records.schema import Other

SLEPT = ("delay", "slowdown")
"""Kinds of disturbance that tasks carry out themselves, by sleeping: nothing else in the iteration changes."""


def calibrate(runs: Sequence[Run], num_parameters: Sequence[int]) -> Calibration:
    """Fit what live runs of one machine determine; ``num_parameters`` is the model size of each.

    Raises:
        RecordError: they cannot be fitted (together), or none of their iterations is undisturbed. One line.
    """
    check(runs)
    parts = list(zip(range(len(runs)), runs, num_parameters, strict=True))
    frame = pd.concat([_iterations(*part) for part in parts], ignore_index=True)
    frame = frame[(frame["samples"] > 0) & ~frame["disturbed"]]
    if not (frame["injected_s"] == 0).any():
        names = ", ".join(str(run.path) for run in runs)
        raise RecordError(f"{names}: no undisturbed iteration in it. Add a run with straggler=none")
    fitted, quick = Calibration(), _quick(frame)
    frame["compute_s"] -= frame["stage_s"].where(frame["paced_s"].isna(), 0.0)  # a device profile contains it
    _fit_computing(frame[frame["free"]], fitted)
    staged = frame[frame["free"] & (frame["stage_s"] > 0)]
    lack = "nothing is copied to a device"
    put_line(fitted, ("stage_base_s", "stage_per_byte_s"), staged, "bytes", "stage_s", "model size", lack)
    put_line(fitted, ("data_base_s", "data_per_sample_s"), quick, "samples", "data_s", "batch size")
    updates = _quick(pd.concat([_updates(*part) for part in parts], ignore_index=True))
    put_line(fitted, ("update_base_s", "update_per_byte_s"), updates, "grad_bytes", "each_s", "size of updates")
    served, on_hosts = frame[~frame["ring"]], bool(hosts_of(runs[0]))
    if on_hosts:
        fit_wire(served[served["free"] & (served["num_workers"] == 1)], fitted)
        neighbours = Neighbours(runs, [FLOAT_BYTES * number for number in num_parameters])
        rows = [observed(*part, neighbours) for part in parts if not has_ring(part[1])]
        if rows:
            fit_work(pd.concat(rows, ignore_index=True), fitted)
    else:
        calm = served[~served["server_disturbed"]]
        put_line(fitted, ("latency_s", "transfer_per_byte_s"), calm, "bytes", "send_s", "model size")
        carrying = ("carry_per_byte_s", "carry_within_per_byte_s")
        fitted.missing |= dict.fromkeys(carrying, "contained in transfer_per_byte_s")
        fitted.missing["interrupt_per_byte_s"] = "only emulated hosts share a kernel"
    crowded = frame[frame["crowded"]]
    _fit_messages(frame, crowded if len(crowded) else quick, fitted)
    _fit_rare(runs, fitted)
    ring = frame[frame["ring"]]
    sums = [updates_of(run, ring[ring["run"] == number], size) for number, run, size in parts]
    fit_ring(pd.concat(sums, ignore_index=True), fitted, on_hosts=on_hosts)
    for name, column in (("batch_samples", "assigned_samples"), ("num_workers", "num_workers")):
        fitted.covered[name] = (int(frame[column].min()), int(frame[column].max()))
    return fitted


def _quick(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of tasks with a core to themselves, if there are any; else all, as short work mostly escapes a quota."""
    return rows[rows["free"]] if rows["free"].any() else rows


# ---- records to frames ----------------------------------------------------------------------------------------------


def check(runs: Sequence[Run]) -> None:
    """Whether one cost model can describe these runs: live, of one machine, transport and kind of work.

    Raises:
        RecordError: it cannot. One line.
    """
    for run in runs:
        if run.meta["runtime"] != "live":
            raise RecordError(f"{run.path}: a {run.meta['runtime']} run. A cost model is fitted to live runs")
    unpaced = [run for run in runs if not is_paced(run.job)]
    for subset, keys in ((runs, ("transport", "workload", "backend")), (unpaced, ("task_fields",))):
        for (one, other), key in ((pair, key) for pair in pairwise(subset) for key in keys):
            if one.job.get(key) != other.job.get(key):
                what = f"{key} is {one.job.get(key)} and {other.job.get(key)}"
                raise RecordError(f"{one.path}, {other.path}: {what}. Fit a model to each")
    for one, other in pairwise(runs):
        _check_devices(one, other)
        if _machine(one) != _machine(other):
            raise RecordError(f"{one.path}, {other.path}: of different machines. Fit a model to each")
        if bool(hosts_of(one)) != bool(hosts_of(other)):
            raise RecordError(f"{one.path}, {other.path}: one with hosts and one without. Fit a model to each")
    for run in runs:
        _check_hosts(run)


def _check_devices(one: Run, other: Run) -> None:
    if (here := _device(one)) != (there := _device(other)):
        raise RecordError(f"{one.path}, {other.path}: computed on {here} and on {there}. Fit a model to each")


def _check_hosts(run: Run) -> None:
    """Refuse runs whose processor time has no meaning."""
    hosts = hosts_of(run)
    if hosts and (is_paced(run.job) or any(host["device"] for host in hosts)):
        raise RecordError(f"{run.path}: hosts paced by a device. Repeat it with cluster.device=null")
    if hosts and run.tables.nodes["cpu_cores"].isna().all():
        raise RecordError(f"{run.path}: no processor time in it. Repeat it with runtime.telemetry_every_s=0.5")


def _device(run: Run) -> str:
    """The devices that computed gradients, and their users: devices that several workers use are slower for each."""
    device = (run.job.get("backend_fields") or {}).get("device", "cpu")
    in_turn = run.meta.get("machine", {}).get("gpus") or ()
    return f"{device} {list(in_turn)} with {run.job['num_workers']} workers" if in_turn else str(device)


def _machine(run: Run) -> tuple[object, ...]:
    machine = run.meta.get("machine", {})
    return machine.get("cpu"), machine.get("num_cores")


def _iterations(number: int, run: Run, num_parameters: int) -> pd.DataFrame:
    """The iterations of a run, and for each of them the quantities that its costs depend on.

    ``run``, ``block`` (unique over all runs); ``paced_s``: F(b) of its device (NaN without one); ``asked_s``: the
    requested delay (NaN for a slow-down); ``bytes`` of a gradient; ``disturbed``: a window of another kind overlapped
    it; ``server_disturbed``: a server was slowed meanwhile; ``free``: every task had a core; ``crowded``: the run is
    one of a set of jobs; ``ring``: it has a ring instead of servers; ``over_s``: push time beyond the links' transfer
    time; ``overhead_s``, ``gap_s``, ``meets``, ``decide_s``: see :func:`_overheads`.
    """
    held = np.array(run.contents.held, np.int64)
    rows = run.tables.iterations.assign(run=number, held=held, bytes=FLOAT_BYTES * num_parameters)
    rows["num_workers"] = run.job["num_workers"]
    rows["paced_s"] = paced_s(run.job, rows)
    rows["asked_s"], rows["server_disturbed"], rows["disturbed"] = 0.0, False, False
    names = rows["worker"].map(worker_name)
    for window in run.plan.itertuples():
        tasks = slowed_tasks(run, str(window.target))
        meanwhile = (rows["issued_s"] < window.end_s) & (rows["t"] >= window.start_s)
        if any(parse_node(task).role == "server" for task in tasks):
            rows["server_disturbed"] |= meanwhile
        if window.kind in SLEPT:
            hit = names.isin(tasks) & rows["issued_s"].between(window.start_s, window.end_s, "left")
            rows.loc[hit, "asked_s"] += window.magnitude if window.kind == "delay" else nan
        else:
            rows["disturbed"] |= meanwhile & names.isin(tasks)
    rows["ring"] = has_ring(run)
    rows["free"], rows["crowded"] = has_cores(run), set_of(run) is not None
    rows["over_s"] = rows["send_s"] - wire_s(run, FLOAT_BYTES * num_parameters)
    rows["block"] = number * 10**9 + rows["worker"] * 10**6 + rows.groupby("worker").cumcount() // BLOCK
    return rows.assign(**_overheads(run, rows))


def _overheads(run: Run, rows: pd.DataFrame) -> dict[str, Any]:
    """Cost of an arrival beyond the strategy's own waiting.

    Clocks of worker and coordinator are not compared: from its push to its next order the worker waits ``wait_s``, of
    which the strategy took from ``t`` to the next order's ``issued_s``. The rest, ``overhead_s``, is the transfer of
    the report, its time in the coordinator's queue, one decision, and the transfer of the order. ``gap_s`` is the time
    since the coordinator took up the previous event; ``meets``: nothing else is recorded in between.
    """
    columns = ["iteration", "samples", "wait_s", "issued_s", "held"]
    after = rows.groupby(["worker", "incarnation"])[columns].shift(-1)
    usable = (after["iteration"] == rows["iteration"] + 1) & (after["samples"] > 0) & (after["held"] == 0)
    events = run.tables.decisions
    arrived = (events["event"] == "Arrived").to_numpy()
    return {
        "overhead_s": (after["wait_s"] - (after["issued_s"] - rows["t"])).where(usable),
        "gap_s": events["t"].diff().to_numpy()[arrived],
        "meets": (events["seq"].diff() == 1).to_numpy()[arrived],
        "decide_s": events["decide_us"].to_numpy()[arrived] * 1e-6,
    }


def _updates(number: int, run: Run, num_parameters: int) -> pd.DataFrame:
    """Per report of a server: ``each_s`` of its updates, without injection; ``grad_bytes``, gradients times bytes.

    Servers hold equal parts, up to a few bytes. Reports affected by a disturbance other than sleep are left out;
    ``free`` as in :func:`_iterations`.
    """
    busy = run.tables.server_busy
    since_s = busy.groupby("server")["t"].shift(1, fill_value=0.0)
    busy = busy.assign(since_s=since_s, name=busy["server"].map(server_name))
    for window in run.plan[~run.plan["kind"].isin(SLEPT)].itertuples():
        meanwhile = (busy["since_s"] < window.end_s) & (busy["t"] > window.start_s)
        busy = busy[~(meanwhile & busy["name"].isin(slowed_tasks(run, str(window.target))))]
    updates = run.tables.updates
    grads = updates[~updates["void"]].drop_duplicates("version", keep="last").set_index("version")["num_grads"]
    num_bytes = FLOAT_BYTES * num_parameters / (run.job.get("num_servers") or 1)
    spans = zip(busy["version"] - busy["updates"] + 1, busy["version"], strict=True)
    num_grads = np.array([grads.loc[first:last].mean() for first, last in spans], dtype="float64")
    blocks = number * 10**9 + np.arange(len(busy)) // BLOCK
    each_s = (busy["busy_s"] - busy["injected_s"]) / busy["updates"]
    rows = pd.DataFrame({"run": number, "block": blocks, "each_s": each_s, "grad_bytes": num_grads * num_bytes})
    return rows.assign(free=has_cores(run))


# ---- frames to estimates --------------------------------------------------------------------------------------------


def _fit_computing(frame: pd.DataFrame, fitted: Calibration) -> None:
    """Computing time and its jitter, or how exactly a device profile is met."""
    calm = frame[frame["injected_s"] == 0]
    real = calm[calm["paced_s"].isna()]
    held = calm[(calm["overrun_s"] == 0) & (calm["paced_s"] > 0)]
    names = ("compute_base_s", "compute_per_sample_s")
    line = put_line(fitted, names, real, "samples", "compute_s", "batch size", "every run is paced by a device")
    if line is not None:
        sigma = _fit_jitter(real, line.residuals, fitted)
        for name in fitted.estimates.keys() & names:  # the fitted line is a median, but jitter has mean 1
            fitted.estimates[name] = fitted.estimates[name].scaled(exp(sigma**2 / 2))
    paced = fitted if line is None else Calibration()
    sigma = _fit_jitter(held, np.log(held["compute_s"] / held["paced_s"]), paced)
    if line is not None and "jitter_sigma" in paced.estimates:
        note = f"without a device; with one {sigma:.2g}: fit a model to each"
        fitted.estimates["jitter_sigma"] = replace(fitted.estimates["jitter_sigma"], note=note)
    late_s = held["compute_s"] - held["paced_s"] * exp(-(sigma**2) / 2)
    slept = frame[(frame["injected_s"] > 0) & (frame["held"] == 0) & (frame["asked_s"] > 0)]
    over = pd.concat([held.assign(over_s=late_s), slept.assign(over_s=slept["injected_s"] - slept["asked_s"])])
    put_median(fitted, "sleep_overshoot_s", over, "over_s", "nothing sleeps: no device, no injected delay")


def _fit_jitter(rows: pd.DataFrame, logs: pd.Series, fitted: Calibration) -> float:
    """Standard deviation and AR(1) coefficient of ``logs`` around each run's median; returns the deviation.

    A worker's own median would absorb part of what its few iterations have in common.
    """
    who = ["run", "worker", "incarnation"]
    logs = logs - logs.groupby(rows["run"]).transform("median")
    if len(logs) < FEWEST:
        fitted.missing |= dict.fromkeys(("jitter_sigma", "jitter_rho"), too_few(len(logs)))
        return 0.0
    usual = logs[ordinary(logs.to_numpy())]
    sigma = median(rows.loc[usual.index].assign(size=usual.abs()), "size").scaled(MAD_SIGMA)
    fitted.estimates["jitter_sigma"] = sigma
    both = rows.loc[usual.index].assign(log=usual)
    both[["before", "last"]] = both.groupby(who)[["log", "iteration"]].shift(1)
    both = both[both["iteration"] == both["last"] + 1]
    if len(both) < FEWEST or not sigma.value:
        fitted.missing["jitter_rho"] = too_few(len(both)) if sigma.value else "no jitter"
    else:  # rank correlation, which is robust against outliers, converted as for normal logarithms
        rho = 2 * sin(pi / 6 * float(both["log"].corr(both["before"], method="spearman")))
        rho = float(np.clip(rho, 0.0, 0.99))
        fitted.estimates["jitter_rho"] = Estimate(rho, sqrt((1 - rho**2) / len(both)), len(both))
    return sigma.value


def _fit_messages(frame: pd.DataFrame, quick: pd.DataFrame, fitted: Calibration) -> None:
    """The coordinator's service time, and from the remaining overhead of quick workers the latency of a message.

    If there are sets of jobs, only they are used: with neighbours, a process that wakes up waits for a processor.

    The coordinator is serial, so no gap between two events is shorter than its service time; the shortest gaps are
    service times of queued events. If a gap is as long as the overhead itself, nothing was queued. Where few
    events queue, some of the gaps are slightly longer than a service time, which lengthens the estimate; its error
    covers that.
    """
    rows = quick[quick["overhead_s"] > 0]
    if len(rows) < FEWEST:
        fitted.missing |= dict.fromkeys(("control_s", "decision_s"), too_few(len(rows)))
        return
    short = frame[frame["meets"] & (frame["gap_s"] < rows["overhead_s"].median() / 2)]
    met = short[short["gap_s"] < 2 * short["gap_s"].quantile(0.05)]
    if len(met) >= FEWEST:
        decision = median(met, "gap_s")
        above_s = decision.value - float(met["gap_s"].quantile(0.05))
        decision = replace(decision, error=hypot(decision.error, above_s / 2))
    else:
        decision = replace(median(rows, "decide_s"), note="the deciding alone: arrivals never met")
    fitted.estimates["decision_s"] = decision
    alone = rows[rows["gap_s"] > 3 * decision.value]  # the coordinator's queue was empty
    if len(alone) < FEWEST:
        fitted.missing["control_s"] = "arrivals always queue: add a run with fewer workers"
        return
    overhead = median(alone, "overhead_s")
    value, error = max(0.0, (overhead.value - decision.value) / 2), hypot(overhead.error, decision.error) / 2
    fitted.estimates["control_s"] = Estimate(value, error, overhead.observations)


def _fit_rare(runs: Sequence[Run], fitted: Calibration) -> None:
    """Rare actions; a few observations are better than a default of zero."""
    found = {
        "launch_s": (_launches, "no worker was lost and came back"),
        "evaluation_s": (_evaluations, "nothing was evaluated"),
        "checkpoint_base_s": (_checkpoints, "no checkpoint was written"),
    }
    for name, (seconds, lack) in found.items():
        values = [(number, value) for number, run in enumerate(runs) for value in seconds(run)]
        rows = pd.DataFrame(values, columns=["run", "seconds"]).assign(block=range(len(values)))
        put_median(fitted, name, rows, "seconds", lack, fewest=1)
    if "checkpoint_base_s" in fitted.estimates and "control_s" in fitted.estimates:  # the order, and the answer
        checkpoint, control = fitted.estimates["checkpoint_base_s"], fitted.estimates["control_s"]
        value = max(0.0, checkpoint.value - 2 * control.value)
        fitted.estimates["checkpoint_base_s"] = replace(checkpoint, value=value)
    fitted.missing["pending_s"] = "contained in launch_s"
    fitted.missing["worker_cores"] = fitted.missing["server_cores"] = "not fitted: live tasks compute on one thread"
    for name in ("wait_cores", "server_wait_cores"):
        fitted.missing[name] = "not fitted: tasks sleep while they wait"
    fitted.missing["message_sigma"] = "not fitted: our messages differ by what shares the link"
    fitted.missing["concurrent_delays"] = "not fitted: servers have one thread for all updates"
    fitted.missing["run_sigma"] = "not fitted: runs of one fit differ in what they run"
    fitted.missing["disk_bytes_per_s"] = "contained in checkpoint_base_s"
    links = "hosts have links of their own" if hosts_of(runs[0]) else "no link of these runs has a limit"
    fitted.missing["link_bytes_per_s"] = links


def _launches(run: Run) -> Iterator[float]:
    """Seconds from the loss of a worker to its return."""
    for _, rows in run.tables.restarts.query("role == 'worker'").groupby("id"):
        for before, after in pairwise(rows.itertuples()):
            if (before.what, after.what) == ("Lost", "Joined"):
                yield after.t - before.t


def _evaluations(run: Run) -> Iterator[float]:
    """Seconds from the request to the metrics; the final evaluation is outside of the job's time."""
    scored = run.tables.evaluations
    yield from (scored["t"] - scored["asked_s"])[scored["t"] > scored["asked_s"]]


def _checkpoints(run: Run) -> Iterator[float]:
    for line in run.notable_lines:
        if isinstance(line.note, Other) and line.note.type == "Checkpointed":
            yield float(line.note.fields["seconds"])
