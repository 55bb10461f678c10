"""A record's directory stays where it is while a run writes there; a run that has lost it ends at once, in one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.run.ending import JobFailed

LOST = "was removed or renamed while the run wrote there, so its record is lost; start again, and leave it in place"


Tick = Callable[[float], None]


class _Lost(RuntimeError):
    """The directory is gone."""


@contextmanager
def standing(directory: Path) -> Iterator[Callable[[Tick], Tick]]:
    """For the time of a run: makes what is called a few times per second end the run once its directory is gone.

    Raises :class:`JobFailed` then, in place of any error for want of the directory.
    """
    before = os.stat(directory)

    def stands() -> bool:
        try:
            return os.path.samestat(os.stat(directory), before)
        except OSError:
            return False

    def watching(tick: Tick) -> Tick:
        def look(t: float) -> None:
            if not stands():
                raise _Lost
            tick(t)

        return look

    try:
        yield watching
    except Exception:
        if stands():
            raise
        raise JobFailed(f"{directory}: {LOST}") from None
