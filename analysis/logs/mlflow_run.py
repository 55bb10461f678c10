"""A run in MLflow's store of files: a folder of metrics, one file each, with a line per value."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.files import natural
from analysis.logs.limits import MILLI, MOST_FILES, MOST_ROWS, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import positive, whole
from analysis.logs.metrics import read_metrics
from analysis.logs.opening import open_text
from analysis.logs.step_log import LogError, StepLog

METRICS = "metrics"
MOST_MS = MOST_SECONDS / MILLI * 1e3
"""Moments are milliseconds since 1970."""


def metric_files_in(folder: Path) -> list[Path]:
    """The files of metrics in a run's folder; names of metrics may have slashes, which are folders.

    Raises:
        LogError: there are too many.
    """
    found = [path for path in (folder / METRICS).rglob("*") if path.is_file()] if (folder / METRICS).is_dir() else []
    if len(found) > MOST_FILES:
        raise LogError(f"{folder}: has {len(found):,} metrics, and no more than {MOST_FILES:,} are read")
    return sorted(found, key=lambda path: natural(str(path)))


def read_mlflow(folder: Path, unit_s: float | None = None) -> StepLog:
    """The steps of a run, by a metric of seconds or by the moments of its rows: ``milliseconds value step``.

    Raises:
        LogError: a line has another form.
    """
    rows = list[tuple[str, int, str, float, float]]()
    for path in metric_files_in(folder):
        name = path.relative_to(folder / METRICS).as_posix()
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                words, where = line.split(), f"{path}: line {number}"
                if len(words) != 3:
                    raise LogError(f"{where}: must be milliseconds, a value and a step; name a run's folder of MLflow")
                moment_s = MILLI * positive(words[0], "a moment", where, MOST_MS)
                value = pd.to_numeric(words[1], errors="coerce")
                rows.append(("0", whole(words[2], "a step", where, MOST_STEP), name, float(value), moment_s))
                if len(rows) > MOST_ROWS:
                    raise LogError(f"{folder}: has more than {MOST_ROWS:,} values, the most that are read")
    long = pd.DataFrame(rows, columns=["rank", "step", "name", "value", "clock_s"])
    return read_metrics(str(folder), long.dropna(subset=["value"]), unit_s=unit_s)
