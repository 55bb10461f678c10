"""Ctrl-C and SIGTERM while a command works: one line about what is kept, the signal's exit code, nothing half done."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hydra.core import hydra_config
from hydra.types import RunMode

from runtime.errors import Interrupted, print_interrupted
from runtime.run import checking
from runtime.run.ending import Ending
from stragglab.commands.run import run_job
from stragglab.program import perform
from tests.support.cli import ROOT, in_a_fork


def interrupted_command(number: int, kept: str) -> None:
    """A command to which the signal comes while it works; what it has begun it takes away."""
    command = ModuleType("command")
    if kept:
        vars(command)["KEPT"] = kept

    def work(_given: object) -> int:
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            print("cleaned up")
        return 0

    vars(command)["main"] = work
    raise SystemExit(perform("compare", command, ["runs"]))


@pytest.mark.parametrize(
    ("number", "kept", "said"),
    [
        (signal.SIGINT, "the records are as they were", "compare: interrupted; the records are as they were\n"),
        (signal.SIGTERM, "", "compare: interrupted; the same command starts again\n"),
    ],
)
def test_a_command_says_what_is_kept(number: int, kept: str, said: str) -> None:
    for error, code in ((KeyboardInterrupt(), 130), (Interrupted(signal.SIGTERM), 143)):
        assert print_interrupted("data", "nothing was converted", error) == code
    done = in_a_fork(partial(interrupted_command, number, kept), ROOT)
    assert (done.exit_code, done.out, done.err) == (128 + number, "cleaned up\n", said)


def interrupted_job(mode: RunMode, run_dir: Path, number: int) -> None:
    """A job which the signal ends in good order."""
    vars(hydra_config).update(HydraConfig=SimpleNamespace(get=lambda: SimpleNamespace(mode=mode)))
    vars(checking).update(run_checked=lambda job, run_dir: Ending(128 + number if number else 0, number))
    raise SystemExit(run_job(SimpleNamespace(draws=False), run_dir).exit_code)


def test_a_job_says_that_its_record_is_kept_and_a_sweep_that_it_continues(tmp_path: Path) -> None:
    done = in_a_fork(partial(interrupted_job, RunMode.RUN, tmp_path, signal.SIGTERM), ROOT)
    said = ["run.py: interrupted; what was recorded is kept", f"record: {tmp_path}"]
    assert (done.exit_code, done.err.splitlines()) == (143, said)
    done = in_a_fork(partial(interrupted_job, RunMode.MULTIRUN, tmp_path, signal.SIGINT), ROOT)
    assert done.exit_code == 130
    assert "run.py: interrupted; runs that have ended are kept; the same command continues from there" in done.err
    done = in_a_fork(partial(interrupted_job, RunMode.RUN, tmp_path, 0), ROOT)
    assert (done.exit_code, done.err) == (0, f"record: {tmp_path}\n")
