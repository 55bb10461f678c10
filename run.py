"""Run one job, or with -m a sweep of jobs: ``python run.py --help`` says how."""

from __future__ import annotations

import os
import signal


def _quit(number: int, _frame: object) -> None:
    """Until a job installs its own handlers there is nothing to clean up, and no reason for a traceback."""
    os._exit(128 + number)


for _signal in (signal.SIGINT, signal.SIGTERM):
    signal.signal(_signal, _quit)

import contextlib  # noqa: E402  (importing takes long enough for a Ctrl-C)
import shutil  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
from pathlib import Path  # noqa: E402

import hydra  # noqa: E402
from hydra.core.hydra_config import HydraConfig  # noqa: E402
from hydra.types import RunMode  # noqa: E402
from omegaconf import DictConfig  # noqa: E402

from runtime.config.composing import to_raw  # noqa: E402
from runtime.config.parse import Config, parse  # noqa: E402
from runtime.errors import FAILED, NO_SPACE, ConfigError, is_full, no_process, print_error  # noqa: E402
from runtime.run.claiming import claimed  # noqa: E402
from runtime.run.preflight import preflight  # noqa: E402
from runtime.run.prepare import prepare  # noqa: E402
from runtime.run.streams import run_program  # noqa: E402

KILLED = 128
exit_codes = [0]
"""Of the jobs so far."""


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(composed: DictConfig) -> int:
    """One job. A failure does not stop the other jobs of a sweep, but shows in the exit code of all."""
    run_dir = Path(HydraConfig.get().runtime.output_dir)
    try:
        exit_code = run_job(parse(to_raw(composed)), run_dir, Path(HydraConfig.get().runtime.cwd))
    except ConfigError as error:
        exit_code = print_error("run.py", error)
        # what is missing of a sweep, its report tells by these directories
        if HydraConfig.get().mode == RunMode.RUN and claimed(run_dir):
            forget(run_dir)
    except Exception as error:  # noqa: BLE001 (the other jobs of a sweep go on)
        exit_code = unforeseen(error, run_dir)
    exit_codes.append(exit_code)
    if exit_code > KILLED:  # 128 + signal: the user wants out
        sys.exit(exit_code)
    return exit_code


def unforeseen(error: Exception, run_dir: Path) -> int:
    """A full disk and too few processes are nobody's mistake; anything else needs its traceback."""
    if is_full(error) or no_process(error):
        return print_error("run.py", error, FAILED, where=run_dir)
    traceback.print_exc()
    return FAILED


def run_job(config: Config, run_dir: Path, start: Path) -> int:
    """From the configuration to the figures; relative paths are below ``start``. Returns the exit code."""
    from runtime.run.experiment import JobFailed, run_experiment

    try:
        exit_code = run_experiment(config, run_dir, start)
    except JobFailed as error:
        exit_code = print_error("run.py", error, error.exit_code)
    if config.draw and exit_code < KILLED and exit_code != NO_SPACE:
        from analysis.reports.report import finish_run, print_summary, summary_frame

        summary = finish_run(run_dir)
        print_summary(summary_frame(summary))
        if summary["warning"]:
            print(f"{summary['strategy']}: {summary['warning']}", file=sys.stderr)
    print(f"record: {run_dir}", file=sys.stderr)
    return exit_code


def forget(run_dir: Path) -> None:
    """Take away what Hydra has put there for a job that was refused, and the directory if nothing else is in it."""
    shutil.rmtree(run_dir / ".hydra", ignore_errors=True)
    with contextlib.suppress(OSError):  # there is something else in it, or it is where we are
        if run_dir.resolve() != Path.cwd():
            run_dir.rmdir()


def program() -> int:
    """All of it; returns the exit code."""
    if sys.argv[1:2] == ["doctor"]:
        from runtime.live.machines.doctor import main as doctor

        return doctor(sys.argv[2:])
    try:
        sys.argv[1:], needs = preflight(sys.argv[1:])
        prepare(needs)  # from here on in namespaces of our own; the process that called waits for us outside
    except ConfigError as error:
        return print_error("run.py", error)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # what Hydra itself stumbles over (it stores its part first) is ours to tell
    main()
    return max(exit_codes)


if __name__ == "__main__":
    run_program("run.py", program)
