"""Log lines in the manner of MLPerf training (``:::MLLOG {...}``), with its keys where they mean the same.

Only the format is MLPerf's: a run here is no submission, and a virtual clock may have measured its times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.measures.metrics import summarise
from analysis.records.load import Run
from analysis.sinks.errors import SinkError
from analysis.sinks.series import evaluations, started_s

NEEDS = ""
MARK = b":::MLLOG "
INTERVAL_KEYS = ("run_start", "run_stop")


def export(run: Run, where: str) -> str:
    """Write the run's name with suffix ``.log`` into the directory ``where``, in place of an earlier one; its path.

    Raises :class:`SinkError` where a file of that name is not one of ours.
    """
    path = Path(where) / f"{run.path.name}.log"
    if path.is_symlink() or (path.exists() and not (path.is_file() and path.read_bytes()[: len(MARK)] == MARK)):
        raise SinkError(f"mllog: {path}: exists and is no log of MLPerf; choose another directory (--where)")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{MARK.decode()}{json.dumps(line)}\n" for line in lines(run)))
    return str(path)


def lines(run: Run) -> Iterator[dict[str, Any]]:
    """One object per line, in order of time."""
    job, start_ms = run.job, round(started_s(run) * 1000)

    def line(key: str, value: Any, t_s: float = 0.0, **about: Any) -> dict[str, Any]:
        how = f"INTERVAL_{'START' if key == 'run_start' else 'END'}" if key in INTERVAL_KEYS else "POINT_IN_TIME"
        when_ms = start_ms + round(t_s * 1000)
        return {"namespace": "", "time_ms": when_ms, "event_type": how, "key": key, "value": value, "metadata": about}

    yield line("submission_benchmark", job["workload"])
    yield line("submission_platform", run.meta["machine"].get("cpu"), runtime=run.meta["runtime"])
    yield line("seed", run.meta["seed"])
    yield line("global_batch_size", job["global_batch_samples"])
    yield line("train_samples", job["num_samples"])
    for key, field in {"opt_name": "name", "opt_base_learning_rate": "lr"}.items():
        if field in job.get("optimizer", {}):  # old records have none
            yield line(key, job["optimizer"][field])
    yield line("run_start", None, strategy=job["strategy"], straggler=job["straggler"])
    for point in evaluations(run):
        name = point.name.removeprefix("evaluation/")
        key = "eval_accuracy" if name == job["metric"] else f"eval_{name}"
        yield line(key, point.value, point.t_s, updates=point.step, metric=name)
    status, reason = _outcome(run)
    yield line("run_stop", None, run.end_s, status=status, reason=reason)


def _outcome(run: Run) -> tuple[str, str]:
    """(status, reason): as in MLPerf, a run is successful if it reaches the target; without one, if it completes.

    A run that reaches the target is successful even if the job then trains for longer than allowed.
    """
    summary = summarise(run)
    if run.status == "done" and summary["tta_missed"] is False:
        return "success", run.status
    if not summary["completed"]:
        return "aborted", run.status if run.status != "done" else "its time was up"
    return ("aborted", "target missed") if summary["tta_missed"] else ("success", run.status)
