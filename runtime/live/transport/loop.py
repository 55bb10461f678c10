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
    """``origin`` is what :attr:`now` counts from; it can be moved while nothing depends on it.

    ``beside``: one more clock on another loop's sockets and timers, for one of several jobs; a turn of one of the loops
    turns all.
    """

    def __init__(self, beside: Loop | None = None) -> None:
        self.origin = time.monotonic()
        self._shared: _Shared = _Shared() if beside is None else beside._shared
        self.selector = self._shared.selector

    @property
    def now(self) -> float:
        """Seconds since the origin."""
        return time.monotonic() - self.origin

    @property
    def called(self) -> Loop | None:
        """The loop whose callback was called last: this one or a concurrent one."""
        return self._shared.called

    def restart_clock(self) -> None:
        """Set now to 0; timers keep their absolute time."""
        self.origin = time.monotonic()

    def watch(self, file: Any, callback: Callback, *, write: bool = False) -> None:
        """Call back when ``file`` is readable (or, with ``write``, writable)."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if write else 0)

        def call(events: int) -> None:
            self._shared.called = self
            callback(events)

        if file in self.selector.get_map():
            self.selector.modify(file, events, call)
        else:
            self.selector.register(file, events, call)

    def forget(self, file: Any) -> None:
        """Stop callbacks for ``file``."""
        if file.fileno() >= 0 and file in self.selector.get_map():
            self.selector.unregister(file)

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        """Call once at ``when_s``; ties run in the order of calls to this method."""
        shared = self._shared
        heapq.heappush(shared.timers, (self.origin + when_s, next(shared.sequence), self, call))

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        """Call once ``delay_s`` from now."""
        self.at(self.now + delay_s, call)

    def forget_timers(self) -> None:
        """Cancel this loop's own timers."""
        shared = self._shared
        shared.timers = [timer for timer in shared.timers if timer[2] is not self]
        heapq.heapify(shared.timers)

    def wait_s(self, at_most_s: float) -> float:
        """Until the next timer is due."""
        timers = self._shared.timers
        return min(at_most_s, max(0.0, timers[0][0] - time.monotonic())) if timers else at_most_s

    def turn(self, at_most_s: float = 1.0) -> None:
        """Wait for the next event and run what is due."""
        shared = self._shared
        for key, events in self.selector.select(self.wait_s(at_most_s)):
            key.data(events)
        now = time.monotonic()
        while shared.timers and shared.timers[0][0] <= now:
            _, _, shared.called, call = heapq.heappop(shared.timers)
            call()

    def close(self) -> None:
        """Release the selector of all concurrent loops."""
        self.selector.close()


class _Shared:
    """The common state of concurrent loops; timers have times of the monotonic clock."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.timers: list[tuple[float, int, Loop, Callable[[], None]]] = []
        self.sequence = count()
        self.called: Loop | None = None
