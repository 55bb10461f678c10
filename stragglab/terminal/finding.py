"""Records below directories that a command line names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from analysis.records.load import LOG, RecordError, Run, load_run
from analysis.records.log import of_record
from runtime.errors import ConfigError, no_directory

Find = Callable[[Path], Iterable[Path]]


def readable(paths: Iterable[Path]) -> list[Run]:
    """Runs whose tables can be made; others are left out and named. Raises :class:`RecordError` where none can be."""
    found, left_out = [], []
    for path in paths:
        try:
            run = load_run(path)
            with of_record(path):
                _ = run.tables
            found.append(run)
        except RecordError as error:
            left_out.append(str(error))
    if left_out and not found:
        raise RecordError(left_out[0])
    for reason in left_out:
        print(f"left out: {reason}", file=sys.stderr)
    return found


def records_below(folders: Sequence[Path], find: Find) -> list[Path]:
    """Find records in each directory, once, in order; raises :class:`ConfigError` where there is none."""
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder}: {no_directory(folder)}; name directories of runs, or one that holds runs")
        here = list(find(folder))
        if not here:
            raise ConfigError(f"{folder}: holds no run (a directory with meta.json and {LOG})")
        found |= dict.fromkeys(path.resolve() for path in here)
    return list(found)
