"""The progress of work that takes longer than a few seconds: the part that is done, and the estimated rest."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

Item = TypeVar("Item")
QUIET_S = 3.0
"""Work that takes less shows no progress."""
REDRAWN_S, PRINTED_S = 0.5, 10.0
"""Between two states of the line: on a terminal, where it is rewritten, and elsewhere, where each is a line."""
KNOWN_FROM = 0.01
"""Least part done from which one can tell how long the rest takes."""
CLEARED = "\r\x1b[K"


def counted(
    items: Iterable[Item],
    total: int,
    doing: str,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Item]:
    """The items; meanwhile a line says how many of them are done: ``checking jobs: 12 of 60, about 9 s left``."""
    progress = Progress(total, doing, stream, clock)
    try:
        for item in items:
            yield item
            progress.one_more()
    finally:
        progress.close()


@contextmanager
def said_late(words: str, stream: TextIO | None = None, after_s: float = QUIET_S) -> Iterator[None]:
    """Print one line about something that cannot be counted, unless it is over (or refused) by then."""
    line = threading.Timer(after_s, lambda: print(words, file=stream or sys.stderr, flush=True))
    line.daemon = True
    line.start()
    try:
        yield
    finally:
        line.cancel()


def left(seconds: float) -> str:
    """About how long the rest takes."""
    return f"about {f'{math.ceil(seconds)} s' if seconds < 60 else f'{round(seconds / 60)} min'} left"


class Progress:
    """A line about something that is done piece by piece; on standard error, unless a stream is given."""

    def __init__(
        self,
        total: int,
        doing: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.perf_counter,
        quiet_s: float = QUIET_S,
    ) -> None:
        self._total, self._doing, self._clock = total, doing, clock
        self._stream = sys.stderr if stream is None else stream
        self._redrawn = self._stream.isatty()
        self._start_s = clock()
        self._next_s = self._start_s + quiet_s
        self._done, self._shown = 0, False

    def one_more(self) -> None:
        """Another piece is done."""
        self._done += 1
        self._say(f"{self._done} of {self._total}", self._done, self._total)

    def reached(self, part: float) -> None:
        """So much of all is done, from 0 to 1."""
        self._say(f"{math.floor(100 * part)} %", part, 1.0)

    def _say(self, how_far: str, done: float, total: float) -> None:
        now_s = self._clock()
        if now_s < self._next_s or done >= total:
            return
        self._next_s = now_s + (REDRAWN_S if self._redrawn else PRINTED_S)
        text = f"{self._doing}: {how_far}"
        if done >= KNOWN_FROM * total:
            text += f", {left((now_s - self._start_s) / done * (total - done))}"
        print(f"{CLEARED}{text}" if self._redrawn else text, end="" if self._redrawn else "\n", file=self._stream)
        self._stream.flush()
        self._shown = True

    def close(self) -> None:
        """It is over: the line leaves the terminal."""
        if self._shown and self._redrawn:
            print(CLEARED, end="", file=self._stream, flush=True)
