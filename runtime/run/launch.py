"""Jobs that have passed all checks start one after another, as Hydra's own launcher starts them.

Hydra's ``run_job`` makes the output directory, stores ``.hydra/`` and changes into the directory if that is asked for;
the user's callbacks are notified of everything. Nothing is composed or built here any more.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, configure_log, run_job
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, read_write

from runtime.config.compose import ComposedJob, announce
from runtime.config.hydra_internal import Callbacks
from runtime.errors import FAILED, print_error
from runtime.house import NAME
from runtime.record.progress import left
from runtime.record.sums import write_sums
from runtime.run.claiming import is_ours_still
from runtime.run.preflight import Jobs
from runtime.run.resuming import Claimed, Part
from runtime.run.standing import LOST
from runtime.run.sweep_note import Ended, add

if TYPE_CHECKING:
    from runtime.run.checking import Checked

KILLED = 128
"""Exit codes above are 128 + signal: the user has interrupted."""
log = logging.getLogger(__name__)


class Result(NamedTuple):
    """How a job ended."""

    exit_code: int
    reason: str = ""
    """Why it failed, in one line; empty otherwise."""
    interrupted_by: int = 0
    """The signal that came meanwhile, upon which no other job starts, even if this one is done."""


Run: TypeAlias = "Callable[[Checked, Path], Result]"
"""Runs a job into a directory, and raises nothing."""


def launch_one(jobs: Jobs, run: Run) -> int:
    """Run the only job of a command line; returns its exit code."""
    announce(jobs.master)
    callbacks = Callbacks(jobs.master)
    about = _about(jobs)
    _log_as_asked(jobs)
    callbacks.on_run_start(**about)
    result, returned = _run(*jobs.pending.popleft(), HydraContext(jobs.loader, callbacks), run, "hydra.run.dir")
    callbacks.on_run_end(**about, job_return=returned)
    return result.exit_code


def launch_sweep(jobs: Jobs, sweep: Claimed, run: Run, sweep_ended: Callable[[Path], None]) -> int:
    """Run what is left of a sweep; returns the worst exit code. ``sweep_ended`` is called with its directory.

    A job that fails does not stop the others; one that was interrupted ends all.
    """
    _place(jobs.master, sweep.directory)
    announce(jobs.master)
    callbacks = Callbacks(jobs.master)
    context, about = HydraContext(jobs.loader, callbacks), _about(jobs)
    _log_as_asked(jobs)
    callbacks.on_multirun_start(**about)
    OmegaConf.save(jobs.master, sweep.directory / "multirun.yaml")
    log.info(f"Launching {len(sweep.pending)} jobs locally")
    ended = list(sweep.kept)
    jobs.pending.clear()
    while sweep.pending:
        part = sweep.pending.popleft()  # free what a job has loaded before the next one
        log.info(f"\t#{part.composed.config.hydra.job.num} : {' '.join(part.composed.lines)}")
        print(progress(sweep.num_jobs, ended), file=sys.stderr)
        one, interrupted_by = _run_part(part, sweep.directory, context, run)
        if one.exit_code > KILLED:
            return one.exit_code
        if not is_ours_still(sweep.directory):
            return one.exit_code or print_error(NAME, f"hydra.sweep.dir={sweep.directory}: {LOST}", FAILED)
        add(sweep.directory, one)
        ended.append(one)
        if interrupted_by and sweep.pending:
            return KILLED + interrupted_by
        _log_as_asked(jobs)
    sweep_ended(sweep.directory)
    write_sums(sweep.directory)
    for line in failures(ended):
        print(line, file=sys.stderr)
    callbacks.on_multirun_end(**about)
    return max(one.exit_code for one in ended)


def progress(num_jobs: int, ended: Sequence[Ended]) -> str:
    """One line before the next job: ``run 3 of 20, about 6 min left``, by the mean of those that have ended."""
    number_left = num_jobs - len(ended)
    text = f"run {len(ended) + 1} of {num_jobs}"
    if not ended:
        return text
    return f"{text}, {left(number_left * fmean(one.took_s for one in ended))}"


def failures(ended: Sequence[Ended]) -> list[str]:
    """Lines about the jobs that failed; none if none did."""
    failed = [one for one in ended if one.exit_code]
    if not failed:
        return []
    head = f"{len(failed)} of {len(ended)} jobs failed; the same command runs them again and keeps the others:"
    return [head, *(f"  {one.job}: {one.reason or f'exit code {one.exit_code}'}" for one in failed)]


def _run_part(part: Part, directory: Path, context: HydraContext, run: Run) -> tuple[Ended, int]:
    """How it ended, and the signal that came meanwhile."""
    _place(part.composed.config, directory)
    start = time.perf_counter()
    result, _ = _run(part.composed, part.checked, context, run, "hydra.sweep.dir", "hydra.sweep.subdir")
    ended = Ended(
        job=part.job,
        content_sha256=part.content_sha256,
        exit_code=result.exit_code,
        took_s=time.perf_counter() - start,
        reason=result.reason,
    )
    return ended, result.interrupted_by


def _run(
    composed: ComposedJob,
    job: Checked,
    context: HydraContext,
    run: Run,
    directory_key: str,
    subdirectory_key: str | None = None,
) -> tuple[Result, JobReturn]:
    """Callbacks of the user see the exit code as the job's value."""
    results: list[Result] = []

    def task(_: object) -> int:
        results.append(run(job, Path(HydraConfig.get().runtime.output_dir)))
        return results[0].exit_code

    returned = run_job(
        task_function=task,
        config=composed.config,
        job_dir_key=directory_key,
        job_subdir_key=subdirectory_key,
        hydra_context=context,
    )
    _ = returned.return_value  # raises what the job has raised
    return results[0], returned


def _place(config: DictConfig, directory: Path) -> None:
    """Write the sweep's directory into the configuration: it may continue in an older one."""
    with read_write(config.hydra):
        config.hydra.sweep.dir = str(directory)


def _about(jobs: Jobs) -> dict[str, Any]:
    return {"config": jobs.master, "config_name": jobs.master.hydra.job.config_name}


def _log_as_asked(jobs: Jobs) -> None:
    """Configure the job's own logging."""
    configure_log(jobs.master.hydra.hydra_logging, jobs.master.hydra.verbose)
