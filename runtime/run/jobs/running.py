"""One job of a set while it runs: its places become known, its record is opened, and closed when it is over."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, final

import msgspec

from runtime.api import Outcome, RunSpec, record_outcome
from runtime.config.instantiate import instantiate
from runtime.config.parse import Config
from runtime.core.cluster.brain.administrator import Administrator, JobUse
from runtime.errors import ConfigError
from runtime.record.cluster import ClusterRecorder
from runtime.record.crash import log_crash
from runtime.record.sums import write_sums
from runtime.run.checks.job import CheckedJob
from runtime.run.job import make_job, make_run_spec, open_record, prepare_data, write_head
from runtime.run.jobs.checked import SetJob
from strategies.protocol import NodeId, Places


def placed(config: Config, places: Places, num_hosts: int) -> Config:
    """The configuration of a job that has these places."""
    tasks: list[list[str]] = [[] for _ in range(num_hosts)]
    for role, numbers in (("server", places.servers), ("worker", places.workers)):
        for number, host in enumerate(numbers):
            tasks[host].append(str(NodeId(role, number)))
    cluster = msgspec.structs.replace(config.cluster, hosts={**(config.cluster.hosts or {}), "placement": tasks})
    return msgspec.structs.replace(config, cluster=cluster)


def placed_job(checked: CheckedJob, places: Places, num_hosts: int) -> CheckedJob:
    """The job with its tasks at these places."""
    written, config = (placed(one, places, num_hosts) for one in (checked.written, checked.config))
    runtime = instantiate(config.runtime, "runtime", cluster=config.cluster)
    return dataclasses.replace(checked, written=written, config=config, runtime=runtime)


def begun_from(checked: CheckedJob, history: list[dict[str, Any]], kind: tuple[str, str]) -> CheckedJob:
    """The job with a ``history`` of finished jobs from which its strategy begins, if that has one and none is set.

    ``kind``: its workload, and its user. The job stays as it is if what those jobs used does not fit its limits.
    """
    if not history or checked.config.strategy.get("history") != []:
        return checked
    more = {"history": history, "history_of": list(kind)}
    written, config = (
        msgspec.structs.replace(one, strategy={**one.strategy, **more}) for one in (checked.written, checked.config)
    )
    try:
        strategy = instantiate(config.strategy, "strategy")
    except ConfigError:
        return checked
    return dataclasses.replace(checked, written=written, config=config, strategy=strategy)


@final
class RunningJob:
    """A job of a set, which writes its record to ``run_dir``; a runtime's executor holds it.

    ``administrator``: keeps the needs of finished jobs for jobs that start later; None: nobody does.
    """

    def __init__(
        self,
        job: SetJob,
        run_dir: Path,
        num_hosts: int,
        record: ClusterRecorder,
        administrator: Administrator | None = None,
    ) -> None:
        self._administrator = administrator
        self._kind = (job.checked.config.workload.name, job.request.user)
        self.use = JobUse(float(getattr(job.checked.strategy, "unit_cores", 1.0)))
        """The use of its nodes."""
        self._job: SetJob | None = job
        self._name, self._run_dir, self._num_hosts, self._record = job.request.job, run_dir, num_hosts, record
        self.begun = False
        """Whether a runtime has begun it, which then records its end."""
        self._batch_samples = job.checked.config.workload.global_batch_samples

    def open(self, places: Places) -> tuple[CheckedJob, RunSpec]:
        """Open its record; it runs once, so nothing of it is kept."""
        assert self._job is not None
        checked, self._job = placed_job(self._job.checked, places, self._num_hosts), None
        if self._administrator is not None:
            checked = begun_from(checked, self._administrator.history(self._kind[0]), self._kind)
        job = make_job(checked, prepare_data(checked.task, checked.config))
        self._run_dir.mkdir(exist_ok=True)
        self._recorder = open_record(checked.config, self._run_dir)
        write_head(self._run_dir, checked, job)
        spec = make_run_spec(
            checked,
            job,
            self._recorder,
            self._run_dir,
            save_parameters_to=self._run_dir / "parameters.npy" if checked.config.save_parameters else None,
            tick=lambda t: None,
        )
        return checked, spec

    def end(self, outcome: Outcome) -> None:
        """Close its record, and note how far it got and why it ended."""
        if hasattr(self, "_recorder"):
            if not self.begun:
                record_outcome(self._recorder, outcome)
            self._recorder.close()
            write_sums(self._run_dir)
            del self._recorder
        finished = self.use.finished(*self._kind) if outcome.status == "done" else None
        if self._administrator is not None and finished is not None:
            self._administrator.add(finished)
        self._record.table.rows[self._name].iterations = outcome.samples_applied // self._batch_samples
        self._record.reasons[self._name] = outcome.reason

    def crashed(self, error: Exception) -> str:
        """Write the traceback of an unexpected error to its log; returns one line about it."""
        return log_crash(error, self._run_dir)

    def close(self) -> None:
        """Close the record of a job that an error of the whole run has cut off."""
        if hasattr(self, "_recorder"):
            self._recorder.close()
