"""Runs a checked set of jobs into one directory: the cluster's record, and below it each job's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from runtime.api import Outcome, RunStatus
from runtime.config.instantiate import TARGET
from runtime.core.cluster.brain.administrator import Administrator
from runtime.errors import FAILED, NO_SPACE, ConfigError, is_full
from runtime.record.checkpoint import publish
from runtime.record.cluster import ClusterRecorder, JobRow
from runtime.record.cluster_view import make_cluster_view
from runtime.record.meta import SCHEMA, describe_machine, describe_versions, started_at
from runtime.record.sums import JOBS, write_sums
from runtime.run.ending import Ending, JobFailed, ending_of
from runtime.run.job import prepare_data
from runtime.run.jobs.checked import CheckedSet
from runtime.run.jobs.running import RunningJob
from runtime.run.standing import Tick, standing


class _Cluster(Protocol):
    """A cluster of either runtime."""

    @property
    def now(self) -> float:
        """Seconds of its clock."""

    @property
    def interrupted_by(self) -> int:
        """The signal that ended it, if one did."""

    def run(self) -> Mapping[str, Outcome]:
        """Until all jobs are over, or a signal."""


def run_set(checked: CheckedSet, run_dir: Path) -> Ending:
    """Run all jobs.

    Raises :class:`ConfigError` if the directory has a record or data are missing, :class:`JobFailed` if a job has
    failed or the disk is full.
    """
    if checked.real_time:  # reading data at a job's start would keep the others waiting
        for one in checked.jobs:
            prepare_data(one.checked.task, one.checked.config)
    run_dir.mkdir(parents=True, exist_ok=True)
    with standing(run_dir) as watching:
        return _run_recorded(checked, run_dir, watching)


def _run_recorded(checked: CheckedSet, run_dir: Path, watching: Callable[[Tick], Tick]) -> Ending:
    """Run all jobs, with their records; ``watching`` is for what is called a few times per second."""
    try:
        record = ClusterRecorder(run_dir, [_row(checked, number) for number in range(len(checked.jobs))])
    except FileExistsError:
        raise ConfigError(f"hydra.run.dir={run_dir}: holds a record already; choose another directory") from None
    publish(run_dir / "meta.json", [msgspec.json.format(msgspec.json.encode(_meta(checked, run_dir)), indent=1), b"\n"])
    num_hosts, detailed = len(checked.machines), checked.config.replay.detail != "gpus_only"
    if detailed:
        (run_dir / JOBS).mkdir()
    administrator = Administrator() if checked.start_cores and checked.config.replay.history else None
    running = {
        job.request.job: RunningJob(job, run_dir / JOBS / job.request.job, num_hosts, record, administrator)
        for job in checked.jobs
    }
    view = make_cluster_view(checked.config.view, record.table, title(checked), _num_gpus(checked))
    cluster = _cluster(checked, running, record, watching(view.tick))
    try:
        cluster.run()
        if not detailed:
            _count_iterations(checked, record)
        rows = list(record.table.rows.values())
        failed = [row for row in rows if row.status != "done"]
        status: RunStatus = "interrupted" if cluster.interrupted_by and failed else "done"
        record.note(cluster.now, "Finished", status=status, reason="")
    except OSError as error:
        if not is_full(error):
            raise
        raise JobFailed(f"{title(checked)}: {error}", NO_SPACE, cluster.interrupted_by) from None
    finally:
        view.close(cluster.now)
        for job in running.values():
            job.close()
        record.close()
    write_sums(run_dir)
    if failed and not cluster.interrupted_by:
        why = f" ({reason})" if (reason := record.reasons.get(failed[0].job, "").partition("\n")[0]) else ""
        first = f"job {failed[0].job} {failed[0].status}{why}; see {run_dir / JOBS / failed[0].job}"
        raise JobFailed(f"{len(failed)} of {len(rows)} jobs are not done: {first}", FAILED)
    return ending_of(status, cluster.interrupted_by)


def _cluster(
    checked: CheckedSet, jobs: Mapping[str, RunningJob], record: ClusterRecorder, tick: Callable[[float], None]
) -> _Cluster:
    if checked.real_time:
        from runtime.run.jobs.as_processes import as_processes

        return as_processes(checked, jobs, record, tick)
    from runtime.run.jobs.on_clock import on_clock

    return on_clock(checked, jobs, record, tick)


def title(checked: CheckedSet) -> str:
    """The name of the set in the view."""
    names = checked.config.names
    return (
        f"{len(checked.jobs)} jobs of {names.jobs} on {names.cluster} ({_num_gpus(checked)} GPUs), policy "
        f"{names.policy}, placement {names.placement}, {names.strategy}, stragglers {names.straggler}, "
        f"seed {checked.config.seed}"
    )


def _num_gpus(checked: CheckedSet) -> int:
    return sum(machine.gpus for machine in checked.machines)


def _row(checked: CheckedSet, number: int) -> JobRow:
    request = checked.jobs[number].request
    return JobRow(
        job=request.job,
        submit_s=request.submit_s,
        gpus=request.gpus,
        servers=request.servers,
        model=request.model,
        user=request.user,
    )


def _count_iterations(checked: CheckedSet, record: ClusterRecorder) -> None:
    """Jobs that were not simulated have done all iterations, or nobody knows how many."""
    for job in checked.jobs:
        row = record.table.rows[job.request.job]
        row.iterations = job.iterations if row.status == "done" else 0


def _meta(checked: CheckedSet, run_dir: Path) -> dict[str, Any]:
    written, names = checked.written, checked.written.names
    return {
        "schema": SCHEMA,
        "kind": "cluster",
        "run_id": run_dir.name,
        "runtime": names.runtime,
        "fitted": _list_fitted(checked),
        "started_at": started_at(),
        "seed": written.seed,
        "versions": describe_versions(),
        "machine": {**describe_machine(), "hosts": checked.hosts.describe()},
        "cluster": {
            "jobs": names.jobs,
            "jobs_fields": _fields(written.jobs),
            "policy": names.policy,
            "policy_fields": _fields(written.policy),
            "placement": names.placement,
            "placement_fields": _fields(written.placement),
            "prevention": names.prevention,
            "prevention_fields": _fields(written.prevention),
            "cluster": names.cluster,
            "strategy": names.strategy,
            "straggler": names.straggler,
            "num_jobs": len(checked.jobs),
            "gpus": _num_gpus(checked),
            "replay": msgspec.structs.asdict(written.replay),
        },
    }


def _list_fitted(checked: CheckedSet) -> list[str]:
    """The fitted files of all strategies; none where these decide nothing."""
    if checked.written.replay.detail == "gpus_only":
        return []
    return sorted({name for job in checked.jobs for name in job.checked.strategy.fitted})


def _fields(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name != TARGET}
