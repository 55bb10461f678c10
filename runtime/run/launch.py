"""Jobs that have passed all checks start one after another, as Hydra's own launcher starts them.

Hydra's ``run_job`` makes the output directory, stores ``.hydra/`` and changes into the directory if that is asked for;
the user's callbacks are notified of everything. Nothing is composed or built here any more.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, configure_log, run_job
from hydra.types import HydraContext
from omegaconf import OmegaConf

from runtime.config.compose import ComposedJob, announce
from runtime.config.hydra_internal import Callbacks
from runtime.run.checking import Checked
from runtime.run.preflight import Jobs

KILLED = 128
"""Exit codes above are 128 + signal: the user has interrupted."""
Run = Callable[[Checked, Path], int]
"""Runs a job into a directory; returns its exit code and raises nothing."""
SWEEP = "STRAGGLAB_SWEEP"
"""Environment variable: the process that has asked another launcher of Hydra's to start jobs."""
log = logging.getLogger(__name__)


class FailedElsewhere(RuntimeError):
    """A job failed in a process that another launcher has started; Hydra brings this back when all jobs are over."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def hand_back(exit_code: int) -> None:
    """Let the process that asked for the job know that it failed, if that is another one."""
    if exit_code and os.environ.get(SWEEP, str(os.getpid())) != str(os.getpid()):
        raise FailedElsewhere(exit_code)


def launch(jobs: Jobs, run: Run, sweep_ended: Callable[[Path], None]) -> int:
    """Run all jobs; returns the worst exit code. ``sweep_ended`` is called with a sweep's directory.

    A job that fails does not stop the others; one that was interrupted ends all.
    """
    announce(jobs.master)
    callbacks = Callbacks(jobs.master)
    context = HydraContext(jobs.loader, callbacks)
    about: dict[str, Any] = {"config": jobs.master, "config_name": jobs.master.hydra.job.config_name}
    _log_as_asked(jobs)
    if not jobs.sweep:
        callbacks.on_run_start(**about)
        returned = _run(*jobs.pending.popleft(), context, run, "hydra.run.dir")
        callbacks.on_run_end(**about, job_return=returned)
        return int(returned.return_value)
    callbacks.on_multirun_start(**about)
    OmegaConf.save(jobs.master, jobs.directory / "multirun.yaml")
    log.info(f"Launching {len(jobs.pending)} jobs locally")
    worst = 0
    while jobs.pending:
        composed, job = jobs.pending.popleft()  # free what a job has loaded before the next one
        log.info(f"\t#{composed.config.hydra.job.num} : {' '.join(composed.lines)}")
        code = int(_run(composed, job, context, run, "hydra.sweep.dir", "hydra.sweep.subdir").return_value)
        if code > KILLED:
            return code
        worst = max(worst, code)
        _log_as_asked(jobs)
    sweep_ended(jobs.directory)
    callbacks.on_multirun_end(**about)
    return worst


def _run(
    composed: ComposedJob,
    job: Checked,
    context: HydraContext,
    run: Run,
    directory_key: str,
    subdirectory_key: str | None = None,
) -> JobReturn:
    return run_job(
        task_function=lambda _: run(job, Path(HydraConfig.get().runtime.output_dir)),
        config=composed.config,
        job_dir_key=directory_key,
        job_subdir_key=subdirectory_key,
        hydra_context=context,
    )


def _log_as_asked(jobs: Jobs) -> None:
    """Configure the job's own logging."""
    configure_log(jobs.master.hydra.hydra_logging, jobs.master.hydra.verbose)
