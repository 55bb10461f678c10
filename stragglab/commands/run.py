"""Jobs, from the words of a command line to finished records: checked all, then started, by us or by Hydra."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import FAILED, NO_SPACE, ConfigError, is_full, no_memory, no_process, print_error
from runtime.house import NAME, ROOT
from runtime.importing import importing, without
from runtime.quitting import kept
from stragglab.commands import COMMANDS

if TYPE_CHECKING:  # jobs import their modules late, so that a refusal is fast
    from omegaconf import DictConfig

    from runtime.run.checking import Checked
    from runtime.run.launch import Result
    from runtime.run.preflight import Jobs, Ready

CONTINUES = "runs that have ended are kept; the same command continues from there"
"""Printed after a signal to a sweep."""
exit_codes = [0]
"""Exit codes of the jobs that Hydra has started in this process."""


def compose(given: Sequence[str]) -> int:
    """Show what is asked for, or check the jobs of the command line and start them; raises :class:`ConfigError`."""
    with importing():
        with without("attr"):
            import omegaconf  # noqa: F401 (nothing else is to be imported without it)
        from runtime.run.preflight import preflight
    refuse_misspelt(given)
    ready = preflight(given)
    if ready.shows:
        print(ready.shows)
        return 0
    if ready.jobs:
        from runtime.run.prepare import prepare

        prepare(ready.jobs.needs)  # from here on in namespaces of our own; the process that called waits for us outside
        if ready.jobs.pending:
            return start(ready.jobs)
        from runtime.run.claiming import claim

        claim(ready.jobs.setting, ready.jobs.directory)
    return by_hydra(ready)


def start(jobs: Jobs) -> int:
    """Start the jobs of a command line one after another; raises :class:`ConfigError` before the first."""
    from analysis.reports.sweep import report_end_of_sweep
    from runtime.run.claiming import claim
    from runtime.run.launch import launch_one, launch_sweep
    from runtime.run.resuming import claim_sweep, words

    if not jobs.sweep:
        claim(jobs.setting, jobs.directory)
        return launch_one(jobs, run_job)
    sweep = claim_sweep(jobs)
    if line := words(sweep):
        print(line, file=sys.stderr)
    return launch_sweep(jobs, sweep, run_job, report_end_of_sweep)


def run_job(job: Checked, run_dir: Path) -> Result:
    """From the checked job to the figures. It raises nothing: other jobs of a sweep continue."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from runtime.run.checking import run_checked
    from runtime.run.claiming import forget
    from runtime.run.ending import JobFailed
    from runtime.run.launch import KILLED, Result

    reason, interrupted_by = "", 0
    sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    kept.append(CONTINUES if sweep else f"{run_dir} may lack its end; the same command starts again")
    try:
        try:
            exit_code, interrupted_by = run_checked(job, run_dir)
        except JobFailed as error:
            exit_code, reason = print_error(NAME, error, error.exit_code), str(error)
            interrupted_by = error.interrupted_by
        if interrupted_by:
            print_error(NAME, f"interrupted; {CONTINUES if sweep else 'what was recorded is kept'}")
        kept.append(CONTINUES if sweep else f"the record is kept; python run.py figures {run_dir} draws it")
        if job.draws and exit_code < KILLED and exit_code != NO_SPACE and run_dir.exists():
            draw(run_dir, explain=not sweep)
        if run_dir.exists():
            print(f"record: {run_dir}", file=sys.stderr)
    except ConfigError as error:
        exit_code, reason = print_error(NAME, error), str(error)
        # the report of a sweep recognises missing runs by these directories
        if not sweep:
            forget(run_dir)
    except Exception as error:  # noqa: BLE001 (the other jobs of a sweep continue)
        exit_code, reason = explain_unforeseen(error, run_dir), f"{type(error).__name__}: {error}"
    return Result(exit_code, " ".join(reason.split()), interrupted_by)


def draw(run_dir: Path, *, explain: bool) -> None:
    """Summary, tables and figures of a record; ``explain``: what the heads of the table mean."""
    from analysis.reports.finish import finish, preload

    with importing():
        preload(run_dir)
    for warning in finish(run_dir, explain=explain):
        print(warning, file=sys.stderr)


def explain_unforeseen(error: Exception, run_dir: Path) -> int:
    """A full disk, a record that cannot be written, too few processes, no memory: a line; else a traceback."""
    if is_full(error) or no_process(error) or no_memory(error) or is_of(error, run_dir):
        return print_error(NAME, error, FAILED, where=run_dir)
    import traceback

    traceback.print_exc()
    return FAILED


def is_of(error: Exception, run_dir: Path) -> bool:
    """Whether a file of the record could not be written, or was removed meanwhile."""
    file = error.filename if isinstance(error, OSError) else None
    return isinstance(file, str) and Path(file).is_relative_to(run_dir)


def by_hydra(ready: Ready) -> int:
    """Let Hydra show what it is asked for, or start the jobs by another launcher or sweeper; returns the exit code."""
    import hydra
    from hydra.core.override_parser.types import Quote, QuotedString

    from analysis.reports.sweep import report_end_of_sweep
    from runtime.config.hydra_errors import REFUSALS, explain
    from runtime.config.hydra_internal import read_all_once
    from runtime.run.elsewhere import FailedElsewhere, ask, noted, tell

    os.environ["HYDRA_FULL_ERROR"] = "1"  # we report Hydra's own errors
    ask(ready.jobs.directory if ready.jobs else None)
    sys.argv[1:] = ready.argv
    if not ready.jobs:
        read_all_once()
    if ready.jobs:  # Hydra must use the claimed directory, whose name has a date
        folder = QuotedString(str(ready.jobs.directory), Quote.single).with_quotes()
        sys.argv.append(f"hydra.sweep.dir={folder}")
    try:
        hydra.main(version_base="1.3", config_path=str(ROOT / "conf"), config_name="config")(main)()
    except FailedElsewhere as error:
        exit_codes.append(error.exit_code)
    except REFUSALS as error:
        return print_error(NAME, explain(error))
    if ready.jobs:
        from runtime.record.sums import write_sums

        report_end_of_sweep(ready.jobs.directory)
        if ready.jobs.directory.is_dir():
            write_sums(ready.jobs.directory)
        failures = noted(ready.jobs.directory)
        exit_codes.extend(one.exit_code for one in failures)
        if line := tell(failures):
            print_error(NAME, line)
    return max(exit_codes)


def main(composed: DictConfig) -> float:
    """One job that another launcher or sweeper of Hydra's starts, perhaps in a process of its own: composed there."""
    import math

    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from analysis.reports.finish import objective
    from runtime.config.compose import composed_again, to_raw
    from runtime.run.checking import check
    from runtime.run.claiming import SETTINGS, refuse_used
    from runtime.run.elsewhere import hand_back, note
    from runtime.run.launch import KILLED

    places, metric = HydraConfig.get().runtime, None
    try:
        job = check(to_raw(composed), Path(places.cwd), composed_again)
        refuse_used("hydra.sweep.subdir", Path(places.output_dir), (SETTINGS, "run.log"))
        metric, result = job.config.metric, run_job(job, Path(places.output_dir))
        exit_code = result.exit_code
        # a signal ends the sweep even if this job has ended by itself
        if result.interrupted_by and HydraConfig.get().mode == RunMode.MULTIRUN:
            exit_code = KILLED + result.interrupted_by
    except ConfigError as error:
        exit_code = print_error(NAME, error)
    exit_codes.append(exit_code)
    if exit_code > KILLED:  # the user wants out
        sys.exit(exit_code)
    if not metric:
        hand_back(exit_code)
        return exit_code
    note(exit_code, Path(places.output_dir), Path(places.cwd, HydraConfig.get().sweep.dir))
    return math.nan if exit_code else objective(Path(places.output_dir), metric)


def refuse_misspelt(words: Sequence[str]) -> None:
    """Name the command that is nearly written first, which would else be taken for a setting without a value."""
    from runtime.config.checking import nearest

    if not words or "=" in words[0] or words[0].startswith("-") or (ROOT / "conf" / words[0]).is_dir():
        return
    if near := nearest(words[0], COMMANDS):
        raise ConfigError(f"{words[0]}: no such command; did you mean {near}?")
