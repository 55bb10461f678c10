"""A run in MLflow: settings as parameters, the summary and evaluations as metrics, figures and summary as artifacts."""

from __future__ import annotations

from math import isfinite
from typing import Any

from analysis.records.load import Run
from analysis.sinks.errors import SinkError
from analysis.sinks.series import evaluations, numbers, settings, started_s

NEEDS = "mlflow"
EXPERIMENT = "stragglab"
BATCH = 1000
"""Most metrics of one request (MLflow's limit)."""
MAX_PARAM = 500
"""Most characters of a parameter."""
ARTIFACTS = ("summary.json", "meta.json", "plan.json", "figures")


def export(run: Run, where: str) -> str:
    """Log the run to the tracking server (or store) at the URI ``where``; returns MLflow's id of it.

    Evaluations have updates as steps, and are at their times after the start of the job.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        return _log(MlflowClient(tracking_uri=where), run)
    except MlflowException as error:
        raise SinkError(f"mlflow: {where}: {error}") from None


def _log(client: Any, run: Run) -> str:
    from mlflow.entities import Metric, Param

    start_ms = round(started_s(run) * 1000)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    into = experiment.experiment_id if experiment else client.create_experiment(EXPERIMENT)
    logged = client.create_run(into, start_time=start_ms, run_name=run.path.name).info.run_id
    params = [Param(name, str(value)[:MAX_PARAM]) for name, value in settings(run).items()]
    for first in range(0, len(params), 100):
        client.log_batch(logged, params=params[first : first + 100])
    end_ms = start_ms + round(run.end_s * 1000)
    metrics = [Metric(name, value, end_ms, 0) for name, value in numbers(run).items() if isfinite(value)]
    metrics += [
        Metric(point.name, point.value, start_ms + round(point.t_s * 1000), point.step) for point in evaluations(run)
    ]
    for first in range(0, len(metrics), BATCH):
        client.log_batch(logged, metrics=metrics[first : first + BATCH])
    for path in (run.path / name for name in ARTIFACTS):
        if path.is_dir():
            client.log_artifacts(logged, str(path), path.name)
        elif path.exists():
            client.log_artifact(logged, str(path))
    client.set_terminated(logged, "FINISHED" if run.status == "done" else "FAILED", end_ms)
    return str(logged)
