"""The cpulimit program as an actuator: one process of it per limited process, which stops and continues that process.

What its source (Debian's 2.8) makes of it: it looks at the target once per 100 ms slot, in clock ticks of 10 ms; it
keeps a running mean over ten slots and changes nothing before it has two; it continues its target when it starts, in
every slot in which the target is below its limit, and when it ends by SIGTERM or SIGINT. Killed by SIGKILL it leaves
the target as it is, most often stopped: whoever owns it must continue the target then. Its option ``-s`` implies
``--kill`` by a missing ``break``, so it is never used here.
"""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn, final

import msgspec

from injectors.actuators.stops import Stops

MISSING = "cpulimit: not found; apt-get install cpulimit"
PR_SET_PDEATHSIG = 1
RETRY_S = 0.5
"""A cpulimit that ends by itself is started again at once, but no sooner than so long after its last start."""
END_S = 1.0
"""How long the end waits for all of them; one takes about a millisecond."""

_prctl = ctypes.CDLL(None).prctl


def find_program() -> str | None:
    """Path of the program; None where it is not installed (:data:`MISSING` is the reason and the cure)."""
    return shutil.which("cpulimit")


def percent_of(cores: float) -> int:
    """The whole percents of one core that cpulimit is told; raises ``ValueError`` for what it does not take."""
    most = os.cpu_count() or 1
    if not 0.01 <= cores <= most:
        raise ValueError(f"{cores:g} cores: cpulimit takes 0.01 to {most} (whole percents of a core)")
    return max(1, round(cores * 100))


def start_program(argv: list[str]) -> int:
    """Start it, without a word and in our process group (who stops us stops it too); the pid.

    It gets SIGTERM from the kernel when we die, however: then it continues its target and ends. That is set between
    fork and exec, which is safe in a process with one thread; and it must be our main thread that forks, because the
    signal follows the thread.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(argv, parent)
    return pid


def _become(argv: list[str], parent: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() == parent:
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(null, descriptor)
            # nothing of the environment, but the marks by which the processes of a run are found
            marks = {name: value for name, value in os.environ.items() if name.startswith("STRAGGLAB_")}
            os.execve(argv[0], argv, marks)
    finally:
        os._exit(127)


class Enforced(msgspec.Struct, frozen=True, kw_only=True):
    """The cpulimit of one process."""

    pid: int | None
    """None: none is running, because of a pause or because it has just ended."""
    percent: int | None
    """Of one core."""
    restarts: int
    """How often one has ended by itself, or was killed."""
    last_exit: int | None
    """Its exit code, or minus the signal, the last time that happened."""


@dataclass
class _Watch:
    """One limited process."""

    target: int
    percent: int | None
    """Wanted; None: no limit."""
    child: int | None = None
    """The cpulimit that is running."""
    child_percent: int = 0
    ending: bool = False
    """It has been told to end."""
    started_s: float = -math.inf
    restarts: int = 0
    last_exit: int | None = None


@final
class Limiter:
    """Keeps one cpulimit running for every process that has a limit, whatever becomes of it.

    Call :meth:`reaped` for every child that the owner reaps, and :meth:`tick` when it is due.
    """

    def __init__(
        self,
        stops: Stops,
        program: str | None,
        start: Callable[[list[str]], int] = start_program,
        send: Callable[[int, int], None] = os.kill,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.program = program
        self._stops, self._start, self._send, self._clock = stops, start, send, clock
        self._watches: dict[int, _Watch] = {}
        self._children: dict[int, _Watch] = {}

    def limit(self, target: int, percent: int | None) -> None:
        """Hold a process to a percentage of one core from now on; None: let it go."""
        if percent is None and target not in self._watches:
            return
        watch = self._watches.setdefault(target, _Watch(target, percent))
        watch.percent = percent
        self._settle(watch)

    def forget(self, target: int) -> None:
        """The process is gone: its number may be somebody else's from now on.

        Its cpulimit is told to end, and continues that number once more as it does, about a millisecond from now.
        """
        self.limit(target, None)
        self._watches.pop(target, None)

    def reaped(self, pid: int, status: int) -> bool:
        """Whether this child was one of ours.

        Its target then does what it is to do, whatever state it has been left in; and if the limit is still wanted,
        another one is started.
        """
        watch = self._children.pop(pid, None)
        if watch is None:
            return False
        if watch.ending:
            watch.started_s = -math.inf
        else:
            watch.restarts, watch.last_exit = watch.restarts + 1, os.waitstatus_to_exitcode(status)
        watch.child, watch.ending = None, False
        if self._watches.get(watch.target) is watch:
            self._stops.renew(watch.target)
            self._settle(watch)
        return True

    def tick(self, now: float) -> float:
        """Start what had to wait; seconds until the next call is wanted, infinity if nothing waits."""
        wait_s = math.inf
        for watch in self._watches.values():
            if watch.percent is not None and watch.child is None:
                self._settle(watch)
                if watch.child is None:
                    wait_s = min(wait_s, max(watch.started_s + RETRY_S - now, 0.0))
        return wait_s

    def enforced(self, target: int) -> Enforced | None:
        """What is being done to a process; None if it never had a limit."""
        watch = self._watches.get(target)
        if watch is None:
            return None
        running = watch.child is not None and not watch.ending
        return Enforced(
            pid=watch.child if running else None,
            percent=watch.child_percent if running else None,
            restarts=watch.restarts,
            last_exit=watch.last_exit,
        )

    def close(self) -> None:
        """End all, wait for them, and let their targets do what they are to do."""
        for target in list(self._watches):
            self.limit(target, None)
        deadline = time.monotonic() + END_S
        while self._children and time.monotonic() < deadline:
            for pid in list(self._children):
                self._reap(pid)
            time.sleep(0.001)
        # who does not hear us gets its signal from the kernel when we are gone; nobody stands still until then
        for watch in self._children.values():
            if watch.target in self._watches:
                self._stops.renew(watch.target)
        self._watches.clear()

    def _reap(self, pid: int) -> None:
        try:
            reaped, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            reaped, status = pid, 0
        if reaped:
            self.reaped(pid, status)

    def _settle(self, watch: _Watch) -> None:
        """What runs becomes what is wanted; one step at a time, because two would work against each other."""
        if watch.child is not None:
            if watch.child_percent != watch.percent and not watch.ending:
                watch.ending = True
                self._end(watch.child)
        elif watch.percent is not None and self._clock() >= watch.started_s + RETRY_S:
            assert self.program is not None
            argv = [self.program, "-p", str(watch.target), "-l", str(watch.percent), "-z"]
            watch.child, watch.child_percent, watch.started_s = self._start(argv), watch.percent, self._clock()
            self._children[watch.child] = watch

    def _end(self, child: int) -> None:
        with suppress(ProcessLookupError):
            self._send(child, signal.SIGTERM)
            self._send(child, signal.SIGCONT)  # it may stand still itself, and would not hear
