"""What a configuration describes, one job or a set of jobs: checked, and run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.config.parse import parse
from runtime.run.checks import CheckedJob, check_job
from runtime.run.jobs.checks import Again, CheckedSet, check_set

Checked = CheckedJob | CheckedSet


def check(raw: Mapping[str, Any], start: Path, again: Again) -> Checked:
    """Check a composed configuration, relative paths of which are below ``start``; raises :class:`ConfigError`."""
    written = parse(raw)
    return check_set(raw, written, start, again) if written.is_set else check_job(written, start)


def run_checked(checked: Checked, run_dir: Path) -> int:
    """Run it into ``run_dir``; returns the exit code. Raises as ``run_experiment`` and ``run_set`` do."""
    if isinstance(checked, CheckedSet):
        from runtime.run.jobs.replay import run_set

        return run_set(checked, run_dir)
    from runtime.run.experiment import run_experiment

    return run_experiment(checked, run_dir)
