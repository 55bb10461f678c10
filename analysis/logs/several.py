"""Files of one job, read one after the other: a broken one is named, and the rest is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from analysis.logs.step_log import LogError

Some = TypeVar("Some")
Counted = Callable[[Sequence[Path]], Iterable[Path]]
"""The same files; meanwhile a line for the user counts them."""
SAID = 3
"""So many broken files have a line each."""


def read_each(paths: Sequence[Path], read: Callable[[Path], Some], counted: Counted) -> tuple[list[Some], list[str]]:
    """(the content of every file that can be read, a line for each of the others).

    Raises:
        LogError: half of the files or more cannot be read; the error is the first one's.
    """
    found, broken = list[Some](), list[LogError]()
    for path in counted(paths):
        try:
            found.append(read(path))
        except LogError as error:
            broken.append(error)
            if 2 * len(broken) >= len(paths):
                raise broken[0] from None
    return found, left_out(broken)


def left_out(broken: Sequence[LogError]) -> list[str]:
    """A line for each file that was left out; if they are many, the last line counts the rest."""
    lines = [f"left out: {error}" for error in broken[:SAID]]
    return [*lines, *([f"left out: {len(broken) - SAID} more files"] if len(broken) > SAID else [])]
