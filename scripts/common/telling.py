"""Lines that say how far a long command is, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 5.0
"""Seconds from one line to the next."""


@contextmanager
def remaining(what: str, count: int) -> Iterator[Callable[[int], None]]:
    """Say what begins; the function that it gives is told how many of ``count`` are done, and says what remains."""
    begun = said = time.monotonic()
    print(f"{what} ...", file=sys.stderr, flush=True)

    def tell(done: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= EVERY_S and done < count:
            left_s = (now - begun) * (count - done) / done
            print(f"{what}: {done} of {count}, about {left_s:.0f} s left", file=sys.stderr, flush=True)
            said = now

    yield tell
