"""A job's time and nothing else: no record, no view, no files; for grids of thousands of virtual jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.core.job import Keeps, RecordSink
from runtime.errors import ConfigError
from runtime.run.checks.job import CheckedJob
from runtime.run.job import make_job, make_run_spec, prepare_data


class Forgetful:
    """A record that keeps nothing."""

    keeps: Keeps = "nothing"

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        """Ignore an event and its answer."""

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """Ignore a note of the coordinator."""


def outcome_of_job(
    checked: CheckedJob,
    record: RecordSink | None = None,
    tick: Callable[[float], None] = lambda _: None,
    schedule: Schedule | None = None,
) -> Outcome:
    """Run the job on its virtual cluster; the outcome is the one that ``run.py`` would record.

    ``record`` may observe; ``tick`` receives the job's time in seconds, a few times per second. ``schedule``: the job's
    plan, if there is one already, not used before.

    Raises :class:`runtime.errors.ConfigError` for a cluster that is not virtual, and as
    :func:`runtime.run.job.run_job` does.
    """
    if checked.runtime.needs_gradients:
        name = checked.config.names.runtime
        raise ConfigError(f"runtime={name}: is not virtual; time without a record is virtual time")
    spec = make_run_spec(
        checked,
        make_job(checked, prepare_data(checked.task, checked.config)),
        record or Forgetful(),
        Path("nowhere"),
        save_parameters_to=None,
        tick=tick,
    )
    return checked.runtime.run(spec, schedule or Schedule(checked.plan))
