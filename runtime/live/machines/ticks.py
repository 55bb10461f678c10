"""The kernel looks at processor quotas more often than it would by itself.

It notices that a group has used up its quota when the scheduler's tick comes (every 4 ms with CONFIG_HZ=250) or
another task interrupts, and takes what was used beyond from the quotas of the next periods. With a quota of 1 ms in
10 ms, work of 3 ms so took 3 ms instead of 20, and whatever the task did next paid for it: short computations looked
undisturbed, and messages slow (docs/hosts.md has the measurements). So on every processor a thread of high priority
wakes up for nothing, which makes the kernel charge what it interrupts.
"""

from __future__ import annotations

import os
import threading
import time

from runtime.native import TICKS, native

PERIOD_S = 5e-4
"""Between two looks: a twentieth of the quotas' period. A look takes 16 microseconds in a virtual machine."""
JOIN_S = 5.0
"""For a thread to end, which a machine that is stopped meanwhile may delay; those of a run are daemons."""
PRIORITY = 1
"""Of SCHED_FIFO: above all ordinary tasks, below whatever else of this machine needs real time."""


class Ticks:
    """Threads that wake up, one for each processor that this process may use, until :meth:`close`."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self.period_s = period_s
        self._stop = bytearray(1)
        self._threads = [
            threading.Thread(target=self._wake, args=(cpu,), name=f"ticks-{cpu}", daemon=True)
            for cpu in sorted(os.sched_getaffinity(0))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Let all threads end, and wait for them: half a millisecond."""
        self._stop[0] = 1
        for thread in self._threads:
            thread.join(JOIN_S)
        self._threads.clear()

    def _wake(self, cpu: int) -> None:
        os.sched_setaffinity(0, [cpu])  # 0: this thread
        be_prompt()
        module = native(TICKS)
        if module is not None:
            module.wake(self._stop, round(self.period_s * 1e9))
            return
        while not self._stop[0]:
            time.sleep(self.period_s)


def be_prompt() -> None:
    """Give the calling thread real-time priority; raises ``PermissionError`` if this user may not."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))


def obstacle() -> str | None:
    """Why this process may have no threads of real-time priority; None if it may."""
    found: list[str] = []

    def look() -> None:
        try:
            be_prompt()
        except OSError as error:
            found.append(os.strerror(error.errno or 0).lower())

    trial = threading.Thread(target=look)
    trial.start()
    trial.join(JOIN_S)
    return found[0] if found else None
