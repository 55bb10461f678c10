"""One thread's event loop: sockets and timers on the monotonic clock."""

from __future__ import annotations

import heapq
import selectors
import time
from collections.abc import Callable
from itertools import count
from typing import Any

Callback = Callable[[int], None]


class Loop:
    """``origin`` is what :attr:`now` counts from; it can be moved while nothing depends on it."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.origin = time.monotonic()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = count()

    @property
    def now(self) -> float:
        """Seconds since the origin."""
        return time.monotonic() - self.origin

    def restart_clock(self) -> None:
        """Now is 0; timers keep their absolute time."""
        shift = self.now
        self.origin += shift
        self._timers = [(at - shift, sequence, call) for at, sequence, call in self._timers]

    def watch(self, file: Any, callback: Callback, *, write: bool = False) -> None:
        """Call back when ``file`` is readable (or, with ``write``, writable)."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if write else 0)
        if file in self.selector.get_map():
            key = self.selector.get_key(file)
            if key.events != events or key.data is not callback:
                self.selector.modify(file, events, callback)
        else:
            self.selector.register(file, events, callback)

    def forget(self, file: Any) -> None:
        """No more callbacks for ``file``."""
        if file.fileno() >= 0 and file in self.selector.get_map():
            self.selector.unregister(file)

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        """Call once at ``when_s``; ties go in the order of asking."""
        heapq.heappush(self._timers, (when_s, next(self._sequence), call))

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call once ``delay_s`` from now."""
        self.at(self.now + delay_s, call)

    def turn(self, at_most_s: float = 1.0) -> None:
        """Wait for the next thing and do what is due."""
        wait = at_most_s
        if self._timers:
            wait = min(wait, max(0.0, self._timers[0][0] - self.now))
        for key, events in self.selector.select(wait):
            key.data(events)
        now = self.now
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    def close(self) -> None:
        self.selector.close()
