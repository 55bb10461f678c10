"""Failures of jobs that another launcher of Hydra's has started in processes of its own: how they come back.

A job without ``metric`` raises its exit code, which Hydra brings back when all are over. One with ``metric`` owes its
sweeper a number (not-a-number: failed), so it adds a line to a file in the sweep's directory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SWEEP = "STRAGGLAB_SWEEP"
"""Environment variable: the process that has asked another launcher of Hydra's to start jobs."""
FILE = "failed.txt"
"""In the sweep's directory: a line ``EXIT_CODE DIRECTORY`` for every job that failed in another process."""


class FailedElsewhere(RuntimeError):
    """A job failed in a process that another launcher has started; Hydra brings this back when all jobs are over."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class Failure(NamedTuple):
    """A job that failed in another process."""

    exit_code: int
    run_dir: str


def ask(directory: Path | None) -> None:
    """Jobs are asked for by this process from here on, in a sweep's ``directory``: earlier notes there are removed."""
    os.environ[SWEEP] = str(os.getpid())
    if directory is not None:
        (directory / FILE).unlink(missing_ok=True)


def hand_back(exit_code: int) -> None:
    """Let the process that asked for the job know that it failed, if that is another one."""
    if exit_code and _is_elsewhere():
        raise FailedElsewhere(exit_code)


def note(exit_code: int, run_dir: Path, sweep_dir: Path) -> None:
    """The same for a job that owes its sweeper a number. Raises ``OSError``."""
    if exit_code and _is_elsewhere():
        with (sweep_dir / FILE).open("a") as file:  # short lines that are appended do not mix
            file.write(f"{exit_code} {run_dir}\n")


def noted(directory: Path) -> list[Failure]:
    """Return the notes of a sweep's jobs."""
    path = directory / FILE
    if not path.exists():
        return []
    lines = [line.partition(" ") for line in path.read_text().splitlines()]
    return [Failure(int(code), run_dir) for code, _, run_dir in lines]


def tell(failures: Sequence[Failure]) -> str:
    """One line about them; empty without any."""
    if not failures:
        return ""
    names = ", ".join(f"{Path(one.run_dir).name} (exit code {one.exit_code})" for one in failures)
    return f"{len(failures)} job{'s' if len(failures) > 1 else ''} failed: {names}"


def _is_elsewhere() -> bool:
    """Whether another process has asked for the job that runs in this one."""
    return os.environ.get(SWEEP, str(os.getpid())) != str(os.getpid())
