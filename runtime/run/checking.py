"""Check and run the job, or the set of jobs, that a configuration describes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.config.parse import Config, parse
from runtime.errors import ConfigError
from runtime.importing import importing

if TYPE_CHECKING:
    from runtime.run.checks.job import CheckedJob
    from runtime.run.ending import Ending
    from runtime.run.jobs.checked import CheckedSet
    from runtime.run.jobs.checks import Again

    Checked = CheckedJob | CheckedSet


def check(raw: Mapping[str, Any], start: Path, again: Again) -> Checked:
    """Check a composed configuration, relative paths of which are below ``start``; raises :class:`ConfigError`."""
    written = parse(raw)
    refuse_without_value(written)
    with importing():  # much, which is needed only now
        from runtime.run.checks.job import check_job
    if not written.is_set:
        return check_job(written, start)
    with importing():
        from runtime.run.jobs.checks import check_set
    return check_set(raw, written, start, again)


def refuse_without_value(config: Config) -> None:
    """Raise :class:`ConfigError` for a metric that the run would not have."""
    if config.metric is not None and config.is_set:
        raise ConfigError(f"metric={config.metric}: is one of a single job, and jobs={config.names.jobs} are many")
    if config.metric == "tta" and config.workload.target is None:
        raise ConfigError("metric=tta: there is no target to be reached; set workload.target, or choose metric=final")


def run_checked(checked: Checked, run_dir: Path) -> Ending:
    """Run it into ``run_dir``. Raises as ``run_job`` and ``run_set`` do."""
    from runtime.run.checks.job import CheckedJob

    if isinstance(checked, CheckedJob):
        from runtime.run.job import run_job

        return run_job(checked, run_dir)
    from runtime.run.jobs.replay import run_set

    return run_set(checked, run_dir)
