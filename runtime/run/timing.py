"""A job's time and nothing else: no record, no view, no files; for grids of thousands of virtual jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.config.instantiate import instantiate
from runtime.config.parse import Config
from runtime.core.job import Record
from runtime.errors import ConfigError
from runtime.run.experiment import (
    circumstances_of,
    make_experiment,
    make_job,
    make_plan,
    make_runtime,
    prepare_data,
    refuse_incapable,
)
from strategies.protocol import Strategy


class Forgetful:
    """A record that keeps nothing."""

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        """An event that the strategy was told."""

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """A fact that the strategy is not told."""


def outcome_of_job(config: Config, record: Record | None = None) -> Outcome:
    """Run the job on its virtual cluster; what it comes to is what ``run.py`` would record. ``record`` may look on.

    Raises :class:`runtime.errors.ConfigError` for a cluster that is not virtual, and as
    :func:`runtime.run.experiment.run_experiment` does. The caller has run :func:`runtime.run.preflight.check_job`.
    """
    strategy: Strategy = instantiate(config.strategy, "strategy")
    runtime: Any = make_runtime(config)
    if runtime.needs_gradients:
        raise ConfigError(f"runtime={config.names.runtime}: is not virtual; time without a record is virtual time")
    refuse_incapable(strategy, runtime)
    job = make_job(config, prepare_data(config), strategy.validation_samples)
    plan = make_plan(config, runtime)
    experiment = make_experiment(
        config,
        job,
        strategy,
        circumstances_of(config, plan),
        record or Forgetful(),
        Path("nowhere"),
        save_parameters_to=None,
        tick=lambda _: None,
    )
    outcome: Outcome = runtime.run(experiment, Schedule(plan))
    return outcome
