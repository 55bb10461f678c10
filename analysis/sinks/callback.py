"""Hydra's callback that sends every run to a sink when it has ended: ``hydra/callbacks=tensorboard``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from analysis.records.load import RecordError
from analysis.sinks.errors import SinkError
from analysis.sinks.exporting import export, missing


class Export(Callback):
    """Sends the record of each job. A job that left none, or a sink that fails, is one line; other jobs continue."""

    def __init__(self, sink: str, where: str | None = None) -> None:
        self.sink = sink
        self.where = where

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Hydra calls this before the job: a sink that cannot work must be reported before the job, not after."""
        if package := missing(self.sink):
            print(
                f"{self.sink}: {package} is not installed, so nothing will be sent (pip install {package}; "
                "the command `export` sends records later)",
                file=sys.stderr,
            )

    on_multirun_start = on_run_start

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """Hydra calls this when a job is over."""
        try:
            print(
                f"{self.sink}: {export(Path(config.hydra.runtime.output_dir), self.sink, self.where)}", file=sys.stderr
            )
        except (SinkError, RecordError, OSError) as error:
            print(f"{self.sink}: nothing was sent: {error}", file=sys.stderr)
