"""Records below directories that a command line names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from analysis.records.load import LOG
from runtime.errors import ConfigError

Find = Callable[[Path], Iterable[Path]]


def records_below(folders: Sequence[Path], find: Find) -> list[Path]:
    """What ``find`` finds in each directory, once, in order; raises :class:`ConfigError` where that is nothing."""
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no such directory; name directories of runs, or one that holds runs")
        here = list(find(folder))
        if not here:
            raise ConfigError(f"{folder}: holds no run (a directory with meta.json and {LOG})")
        found |= dict.fromkeys(path.resolve() for path in here)
    return list(found)
