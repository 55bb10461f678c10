"""The kernel looks at processor quotas more often than it would by itself.

It notices that a group has used up its quota when the scheduler's tick comes (every 4 ms with CONFIG_HZ=250) or
another task interrupts, and takes what was used beyond from the quotas of the next periods. With a quota of 1 ms in
10 ms, work of 3 ms so took a third of what it should, and whatever the task did next paid for it: short computations
looked undisturbed, and messages slow (tests/bench/test_bench_ticks.py measures it). So on every processor a thread of
high priority wakes up for nothing, which makes the kernel charge what it interrupts.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue

from runtime.containment.linux import CLONE_NEWUSER, unshare
from runtime.native import TICKS, native

PERIOD_S = 5e-4
"""Between two looks: an eighth of the period that hosts' quotas have by default. In a virtual
machine one takes 16 to 30 microseconds."""
UNCOMPILED = "the module that wakes up is not compiled"
JOIN_S = 5.0
"""For a thread to begin or end, which a machine that is stopped meanwhile may delay; a run's threads are daemons."""
PRIORITY = 1
"""Of SCHED_FIFO: above all ordinary tasks, below whatever else of this machine needs real time."""


class Ticks:
    """Threads that wake up, one for each processor that this process, and so every task of its lab, may use.

    They do so until :meth:`close`. A lab has one set of them, however many jobs it has.

    Raises ``OSError`` if one of them cannot do so; then none is left.
    """

    def __init__(self) -> None:
        module = native(TICKS)
        if module is None:
            raise OSError(UNCOMPILED)
        self._wake = module.wake
        self._stop = bytearray(1)
        self._threads: list[threading.Thread] = []
        said: SimpleQueue[OSError | None] = SimpleQueue()
        try:
            for cpu in sorted(os.sched_getaffinity(0)):
                thread = threading.Thread(target=self._work, args=(cpu, said), name=f"ticks-{cpu}", daemon=True)
                thread.start()
                self._threads.append(thread)
            for error in [said.get(timeout=JOIN_S) for _ in self._threads]:
                if error is not None:
                    raise error
        except (OSError, RuntimeError, Empty) as error:  # RuntimeError: no more threads are allowed
            self.close()
            raise OSError(f"no thread of real-time priority for each processor: {error}") from error

    def close(self) -> None:
        """Let all threads end, and wait for them: half a millisecond."""
        self._stop[0] = 1
        for thread in self._threads:
            thread.join(JOIN_S)
        self._threads.clear()

    def _work(self, cpu: int, said: SimpleQueue[OSError | None]) -> None:
        try:
            os.sched_setaffinity(0, [cpu])  # 0: this thread
            be_prompt()
        except OSError as error:
            said.put(error)
            return
        said.put(None)
        self._wake(self._stop, round(PERIOD_S * 1e9))


def be_prompt() -> None:
    """Give the calling thread real-time priority; raises ``PermissionError`` if this user may not."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))


def obstacle() -> str | None:
    """Why a run of this process may have no threads of real-time priority, tried in a child; None if it may."""
    if native(TICKS) is None:
        return UNCOMPILED
    child = os.fork()
    if child == 0:
        number = 0
        try:
            if os.geteuid() != 0:  # whose runs are in a user namespace, where no privilege is one over the machine
                with suppress(OSError):
                    unshare(CLONE_NEWUSER)
            be_prompt()
        except OSError as error:
            number = error.errno or errno.EPERM
        finally:
            os._exit(number)
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return os.strerror(number).lower() if number > 0 else None
