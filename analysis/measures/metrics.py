"""The metrics of one run. ``t`` starts at ``Started``, so all times count from the job's start."""

from __future__ import annotations

from math import inf, isfinite, nan
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures import memory_speed, targets, work
from analysis.measures.warned import disturbances_of, warnings_of_run
from analysis.measures.warning_lines import in_summary
from analysis.records.jumps import jumps_of
from analysis.records.load import Run

TIME_IS_UP = "max_time_s="
"""How the reason of a job begins that was stopped because it took too long."""
CONVERGED = " has converged"
"""How the reason of a job ends that ``stop_at_convergence`` ended."""


def jct_s(run: Run) -> float:
    """Job completion time: from ``Started`` to the job's end, or to the last line of a run that was cut off."""
    return run.end_s


def has_completed(run: Run) -> bool:
    """Whether the job completed: it ended by itself, and not because ``max_time_s`` was up.

    One that has neither epochs nor a value to stop at is of fixed time, and completes by that.
    """
    job, end = run.job, run.finished
    if run.status != "done" or end is None:
        return False
    if job.get("epochs") is None:
        stops = job.get("stop_at_target") or job.get("stop_at_convergence")
        return not (stops and end.reason.startswith(TIME_IS_UP))
    whole = end.epochs_done is None or end.epochs_done >= job["epochs"]
    return whole or jct_s(run) < job.get("max_time_s", inf)


def summarise(run: Run) -> dict[str, Any]:
    """The content of ``summary.json``: identity, end, times, and where the work went. JSON-safe.

    A time that was never reached is null; ``tta_missed`` distinguishes an infinite one (true) from one that was not
    measured (null: the job has no target). ``jct_s`` of a run that is not ``completed`` is how long it lasted.
    """
    injected = disturbances_of(run)
    ends = (_overhead(run), _events(run), _count_skipped(run), _memory(run))
    work_done = (_gradients(run), _workers(run), _count_injected(run, injected))
    parts = (_identity(run), _end(run), in_summary(warnings_of_run(run, injected)), _times(run), *work_done, *ends)
    summary = {key: value for part in parts for key, value in part.items()}
    return dict(_safe(summary))


def _identity(run: Run) -> dict[str, Any]:
    keys = ("strategy", "strategy_fields", "straggler", "workload", "backend", "topology", "num_workers", "num_servers")
    head = {key: run.meta.get(key) for key in ("run_id", "runtime", "calibration", "seed", "plan_sha256")}
    return head | {key: run.job.get(key) for key in keys}


def _end(run: Run) -> dict[str, Any]:
    reason = run.finished.reason if run.finished else "the record ends without a last line"
    return {"status": run.status, "reason": reason}


def _times(run: Run) -> dict[str, Any]:
    job, up = run.job, bool(run.job["higher_is_better"])
    rule = job.get("convergence") or {"evaluations": targets.WINDOW, "max_change": targets.TOLERANCE}
    scored, target = targets.scores(run.tables.evaluations, job["metric"]), job.get("target")
    held = targets.rule_of(job)
    tta = targets.tta_s(scored, target, *held) if target is not None else nan
    return {
        "completed": has_completed(run),
        "jct_s": jct_s(run),
        "metric": job["metric"],
        "higher_is_better": up,
        "target": target,
        "tta_s": tta,
        "tta_missed": None if target is None else not isfinite(tta),
        "tta_step_s": targets.tta_step_s(scored, target, *held) if target is not None else nan,
        "tta_interp_s": targets.tta_interp_s(scored, target, *held) if target is not None else nan,
        "converged_s": targets.converged_s(scored, rule["evaluations"], rule["max_change"]),
        "final_metric": targets.final(scored),
        "best_metric": targets.best(scored, up),
        "evaluations": len(scored),
    }


def _gradients(run: Run) -> dict[str, Any]:
    updates, fates = run.tables.updates, work.fates(run.tables.iterations)
    grads, samples = fates["grads"], fates["samples"]
    pushed, tau = int(grads.drop("empty").sum()), work.staleness(run.tables.iterations)
    held = run.contents.discarded  # of those that were computed, but never pushed
    return {
        "updates": int((~updates["void"]).sum()),
        "updates_void": int(updates["void"].sum()),
        "grads": grads.to_dict(),
        "samples": samples.drop("empty").to_dict(),
        "dropped_frac": (grads["dropped"] + held) / (pushed + held) if pushed + held else nan,
        "epochs_done": run.finished.epochs_done if run.finished else None,
        "mean_uses_per_sample": samples["applied"] / run.job["num_samples"],
        "computed_per_applied": samples.sum() / samples["applied"] if samples["applied"] else nan,
        "staleness_mean": tau.mean() if len(tau) else nan,
        "staleness_max": tau.max() if len(tau) else nan,
        "staleness": {f"{value}": count for value, count in tau.value_counts().sort_index().items()},
    }


def _workers(run: Run) -> dict[str, Any]:
    rows, spent = work.with_samples(run.tables.iterations), work.time_spent(run.tables.iterations)
    deviating = work.deviations(rows)
    pairs, frac = work.stragglers(deviating)
    delay = work.delay_frac(deviating)
    return {
        "iterations": len(rows),
        "bpt_s": work.quantiles(rows["bpt_s"]),
        "bpt_by_worker_s": {f"{worker}": work.quantiles(bpt) for worker, bpt in rows.groupby("worker")["bpt_s"]},
        "server_bpt_s": work.quantiles(work.server_bpt_s(run.tables.server_busy)),
        "time_spent_s": spent.sum().to_dict(),
        "wait_frac": work.wait_frac(spent),
        "use_by_worker_frac": {f"{worker}": value for worker, value in work.use_frac(spent).items()},
        "straggler_iterations": pairs,
        "iterations_with_straggler_frac": frac,
        "delay_frac": delay,
        "waste_frac": work.waste_frac(delay),
    }


def _count_injected(run: Run, rows: pd.DataFrame) -> dict[str, Any]:
    tables = run.tables
    overrun = tables.iterations["overrun_s"]
    return {
        "injected_planned_s": rows["planned_s"].sum(),
        "injected_achieved_s": rows["achieved_s"].sum(),
        "injected_measured_s": tables.iterations["injected_s"].sum() + tables.server_busy["injected_s"].sum(),
        "disturbances": rows.drop(columns="reported_s").to_dict("records"),
        "overruns": int((overrun > 0).sum()),
        "overrun_total_s": overrun.sum(),
        "overrun_max_s": overrun.max() if len(overrun) else 0.0,
        "staged_s": tables.iterations["stage_s"].sum(),
    }


def _overhead(run: Run) -> dict[str, Any]:
    decide = run.tables.decisions["decide_us"]
    total_s, jct = decide.sum() * 1e-6, jct_s(run)
    p50, p99 = np.quantile(decide, [0.5, 0.99]) if len(decide) else (nan, nan)
    return {"decide_p50_us": p50, "decide_p99_us": p99, "decide_frac": total_s / jct if jct > 0 else nan}


def _events(run: Run) -> dict[str, Any]:
    what = run.tables.restarts["what"].value_counts()
    names = {"workers_lost": "Lost", "workers_joined": "Joined", "failures": "Failed", "servers_lost": "ServerLost"}
    sound = run.integrity
    return {
        **{key: int(what.get(name, 0)) for key, name in names.items()},
        "rollbacks": int(what.get("Restored", 0)),
        "torn": run.torn,
        "integrity": {"ok": sound.ok, "problems": list(sound.problems), "unchecked": list(sound.unchecked)},
    }


def _count_skipped(run: Run) -> dict[str, Any]:
    """How much of a job was not carried out in detail; nothing of one that was."""
    jumps = jumps_of(run.notable_lines)
    if not jumps:
        return {}
    iterations = sum(sum(jump.note.iterations.values()) for jump in jumps)
    return {"skipped_s": sum(jump.note.seconds for jump in jumps), "skipped_iterations": iterations}


def _memory(run: Run) -> dict[str, Any]:
    """How long a copy of 4 MiB took on the machine of emulated hosts; nothing of a run that has no readings."""
    copies = memory_speed.readings(run)["copy_s"]
    return {"memory_copy_s": {"readings": len(copies), **work.quantiles(copies)}} if len(copies) else {}


def _safe(value: Any) -> Any:
    """The value as plain Python; non-finite numbers become null."""
    if isinstance(value, dict):
        return {key: _safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not isfinite(value) else value
