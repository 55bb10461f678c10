"""From a checked job to a finished record: write plan and metadata, then run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from injectors.plan import plan_json, plan_sha256
from injectors.schedule import Schedule
from runtime.api import RunSpec
from runtime.backends.base import supports_sample_weights
from runtime.cluster.device import describe_devices
from runtime.cluster.sum_traces import read_trace
from runtime.config.parse import ON_THIS_MACHINE, Config
from runtime.core.collectives.known import Summing
from runtime.core.executor import cut_for, nominal_batches
from runtime.core.job import Job, RecordSink
from runtime.errors import ConfigError, is_full
from runtime.record.checkpoint import publish
from runtime.record.columns import ColumnRecorder
from runtime.record.meta import SCHEMA, describe_machine, describe_versions, started_at
from runtime.record.picture import Picture
from runtime.record.recorder import Fanout, Recorder
from runtime.record.sums import write_sums
from runtime.record.view import make_view
from runtime.run.checks.facts import device_of
from runtime.run.checks.job import CheckedJob, refuse_empty
from runtime.run.ending import EXIT_CODES, Ending, JobFailed, ending_of
from runtime.run.standing import Tick, standing
from runtime.training.lr_schedules import make_schedule

UNTOLD = ("lr_at", "seed", "stuck_after_s")
"""Fields of a job that its ``meta.json`` does not repeat."""


def run_job(checked: CheckedJob, run_dir: Path) -> Ending:
    """Run one job into ``run_dir``.

    Raises :class:`runtime.errors.ConfigError` for errors that show only when the data is read, :class:`JobFailed` for a
    job that failed.
    """
    config = checked.config
    job = make_job(checked, prepare_data(checked.task, config))
    checked.runtime.await_nodes(config.workload.task, checked.backend.framework, device_of(checked.backend))
    run_dir.mkdir(parents=True, exist_ok=True)
    with standing(run_dir) as watching:
        return _run_recorded(checked, job, run_dir, watching)


def _run_recorded(checked: CheckedJob, job: Job, run_dir: Path, watching: Callable[[Tick], Tick]) -> Ending:
    """Run the job, with its record; ``watching`` wraps the function that is called a few times per second."""
    config = checked.config
    recorder = open_record(config, run_dir)
    head = write_head(run_dir, checked, job)
    picture = Picture(job, title(config, job), checked.plan)
    view = make_view(config.view, picture)
    spec = make_run_spec(
        checked,
        job,
        Fanout(recorder, picture),
        run_dir,
        save_parameters_to=run_dir / "parameters.npy" if config.save_parameters else None,
        tick=watching(view.tick),
    )
    outcome = checked.runtime.run(spec, Schedule(checked.plan))
    view.close(outcome.t)
    recorder.close()
    if spec.engine and outcome.status != "disk_full":
        publish_meta(run_dir, {**head, "engine": spec.engine})
    write_sums(run_dir)
    if outcome.status not in ("done", "interrupted"):
        words = f"{title(config, job)}: {outcome.reason}"
        raise JobFailed(words, EXIT_CODES[outcome.status], interrupted_by=spec.interrupted_by)
    return ending_of(outcome.status, spec.interrupted_by)


def _summing_of(config: Config) -> Summing:
    topology = config.topology
    traced = None if topology.trace_dir is None else read_trace(Path(topology.trace_dir))
    return Summing(topology.collective or "", topology.blocks, topology.late_worker, traced, topology.bound_s)


def make_run_spec(checked: CheckedJob, job: Job, record: RecordSink, run_dir: Path, **more: Any) -> RunSpec:
    """The runtime's input; ``more`` are fields that do not follow from the configuration."""
    config = checked.config
    return RunSpec(
        job=job,
        strategy=checked.strategy,
        record=record,
        run_dir=run_dir,
        transport=config.topology.transport,
        transfer_bits=config.topology.transfer_bits,
        collective=config.topology.collective or "",
        summing=_summing_of(config),
        backend=checked.backend,
        task=checked.task,
        backend_spec=config.backend,
        task_spec=config.workload.task,
        optimizer=config.workload.optimizer,
        around=checked.around,
        scheduler=checked.scheduler,
        **more,
    )


def prepare_data(task: Any, config: Config) -> int:
    """Number of training samples; raises ``ConfigError`` if the task's data are missing or invalid."""
    try:
        return int(task.prepare())
    except (ValueError, OSError) as error:
        if is_full(error):
            raise
        raise ConfigError(f"workload={config.workload.name}: {error}") from error


def make_job(checked: CheckedJob, num_samples: int) -> Job:
    """The job's limits and sizes; raises ``ConfigError`` when there are too few samples."""
    config, workload, backend = checked.config, checked.config.workload, checked.backend
    validation_samples = checked.strategy.validation_samples
    num_samples = refuse_empty(config, num_samples, validation_samples)
    schedule = make_schedule(**workload.lr_schedule, epoch_samples=num_samples)
    is_scored = backend.computes or backend.progress is not None
    return Job(
        num_workers=config.num_workers,
        num_servers=config.topology.num_servers,
        num_replicas=checked.strategy.replicas,
        server_shares=config.topology.server_shares or (),
        num_samples=num_samples,
        validation_samples=validation_samples,
        global_batch_samples=workload.global_batch_samples,
        batches_per_shard=workload.batches_per_shard,
        epochs=workload.epochs,
        epoch_overlap=workload.epoch_overlap,
        max_time_s=config.max_time_s,
        eval_every_s=config.eval_every_s if is_scored else None,
        checkpoint_every_s=config.checkpoint_every_s,
        stuck_after_s=config.stuck_after_s,
        seed=config.seed,
        metric=workload.metric,
        higher_is_better=workload.higher_is_better,
        target=workload.target,
        target_evals=config.target_evals,
        stop_at_target=config.stop_at_target,
        convergence=workload.convergence,
        stop_at_convergence=config.stop_at_convergence,
        supports_sample_weights=supports_sample_weights(checked.task, backend.framework),
        failover=config.failover,
        max_losses=config.max_losses,
        lr=workload.optimizer["lr"],
        lr_at=schedule.lr_at,
    )


def title(config: Config, job: Job) -> str:
    """The name of the job in the view."""
    others = _count(job.num_servers, "server") if job.num_servers else f"all-reduce by {config.topology.collective}"
    where = [config.names.runtime, config.names.cluster]
    if config.launcher != ON_THIS_MACHINE:
        where.append(f"machines by {config.names.launcher}")
    if config.names.runtime != "virtual":  # a virtual job has the costs of a transport, and no connections
        where.append(config.topology.transport)
    return (
        f"{config.names.strategy} on {config.workload.name}, {_count(job.num_workers, 'worker')}, {others} "
        f"({', '.join(where)}), stragglers {config.names.straggler}, seed {config.seed}"
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _fields(spec: dict[str, Any]) -> dict[str, Any]:
    """The fields of a spec without the name of its class."""
    return {name: value for name, value in spec.items() if name != "_target_"}


def open_record(config: Config, run_dir: Path) -> Recorder | ColumnRecorder:
    """Open the event log, which must be new."""
    try:
        return ColumnRecorder(run_dir) if config.record == "iterations" else Recorder(run_dir)
    except FileExistsError:
        raise ConfigError(f"hydra.run.dir={run_dir}: holds a record already; choose another directory") from None


def described(config: Config) -> dict[str, Any]:
    """Return the part of ``meta.json`` that follows from a job's configuration alone."""
    workload, topology = config.workload, config.topology
    return {
        "strategy": config.names.strategy,
        "straggler": config.names.straggler,
        "straggler_fields": _fields(config.straggler),
        "workload": workload.name,
        "task_fields": _fields(workload.task),
        "optimizer": workload.optimizer,
        "lr_schedule": workload.lr_schedule,
        "backend": config.names.backend,
        "backend_fields": _fields(config.backend),
        "topology": topology.name,
        "transport": topology.transport,
        "transfer_bits": topology.transfer_bits,
        "collective": topology.collective,
        "blocks": topology.blocks,
        "late_worker": topology.late_worker,
        "bound_s": topology.bound_s,
        "cluster": config.names.cluster,
        "device": config.cluster.device,
        "scheduler_fields": _fields(config.scheduler),
        "num_workers": config.num_workers,
        "num_servers": topology.num_servers,
        "global_batch_samples": workload.global_batch_samples,
        "batches_per_shard": workload.batches_per_shard,
        "epochs": workload.epochs,
        "epoch_overlap": workload.epoch_overlap,
        "max_time_s": config.max_time_s,
        "checkpoint_every_s": config.checkpoint_every_s,
        "metric": workload.metric,
        "higher_is_better": workload.higher_is_better,
        "target": workload.target,
        "target_evals": config.target_evals,
        "stop_at_target": config.stop_at_target,
        "lr": workload.optimizer["lr"],
    }


def write_head(run_dir: Path, checked: CheckedJob, job: Job) -> dict[str, Any]:
    """Write ``plan.json`` and ``meta.json``, with paths as the user wrote them; returns what the latter says."""
    config, strategy, runtime, plan = checked.written, checked.strategy, checked.runtime, checked.plan
    publish(run_dir / "plan.json", [plan_json(plan)])
    fields = {field.name: getattr(strategy, field.name) for field in dataclasses.fields(strategy)}  # type: ignore[arg-type]
    about = {name: value for name, value in msgspec.structs.asdict(job).items() if name not in UNTOLD}
    meta = {
        "schema": SCHEMA,
        "run_id": run_dir.name,
        "runtime": runtime.name,
        "calibration": runtime.calibration(nominal_batches(job.global_batch_samples, job.num_workers)[0]),
        "fitted": list(strategy.fitted),
        "started_at": started_at(),
        "seed": config.seed,
        "plan_sha256": plan_sha256(plan),
        "versions": describe_versions(),
        "machine": {**describe_machine(), **runtime.machine(checked.around)},
        "job": {
            **described(config),
            "strategy_fields": fields,
            "devices": describe_devices(config.cluster.devices, job.num_workers),
            "data": strategy.data,
            "num_shards": cut_for(job, strategy.data).num_shards,
            **about,
        },
    }
    publish_meta(run_dir, meta)
    return meta


def publish_meta(run_dir: Path, meta: dict[str, Any]) -> None:
    """Write ``meta.json`` as a whole, in place of an earlier one."""
    publish(run_dir / "meta.json", [msgspec.json.format(msgspec.json.encode(meta), indent=1), b"\n"])
