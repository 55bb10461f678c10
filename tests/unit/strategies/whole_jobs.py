"""Whole jobs on the virtual clock as a command line asks for them, without a record on the disk."""

from __future__ import annotations

from functools import cache
from typing import Any

from runtime.api import Outcome
from runtime.config.command_line import parse_arguments
from runtime.config.compose import Composer, composing
from runtime.config.parse import parse
from runtime.run.checks.job import check_job
from runtime.run.timing import outcome_of_job

QUIET = "backend=none workload.target=null eval_every_s=null checkpoint_every_s=null max_time_s=3000"


class States:
    """What the strategy said of its state, event by event."""

    def __init__(self) -> None:
        self.of: dict[str, list[Any]] = {}

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: Any) -> None:
        for name, value in (state or {}).items():
            self.of.setdefault(name, []).append(value)

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """Ignore a note of the coordinator."""


@cache
def composer() -> Composer:
    """One for all lines: it remembers the files it has read, a quarter of the time of composing."""
    with composing(parse_arguments([])) as made:
        return made


def run_line(line: str) -> tuple[Outcome, States]:
    """``python run.py`` with these words."""
    job = check_job(parse(composer().raw(f"{QUIET} {line}".split())))
    states = States()
    return outcome_of_job(job, states), states


def jct_s(line: str) -> float:
    """Job completion time; the job must have done all its work."""
    outcome, _ = run_line(line)
    assert outcome.status == "done"
    return outcome.t
