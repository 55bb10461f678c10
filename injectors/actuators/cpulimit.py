"""The cpulimit program as an actuator: one cpulimit process per limited process, which it stops and continues.

Its behaviour, from its source (Debian's 2.8): it samples the target once per 100 ms slot, in clock ticks of 10 ms; it
keeps a running mean over ten slots and changes nothing before it has two; it continues its target when it starts, in
every slot in which the target is below its limit, and when it ends by SIGTERM or SIGINT. Killed by SIGKILL it leaves
the target as it is, most often stopped, so the target's owner must continue it. Its option ``-s`` implies ``--kill``
because of a missing ``break``, so it is never used here.
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
"""Seconds. A cpulimit that exits is restarted immediately, but not sooner than this after its last start."""
END_S = 1.0
"""Timeout for all of them to exit; one takes about a millisecond."""

_prctl = ctypes.CDLL(None).prctl


def find_program() -> str | None:
    """Path of the program; None if it is not installed (:data:`MISSING` has the reason and the cure)."""
    return shutil.which("cpulimit")


def start_program(argv: list[str]) -> int:
    """Start cpulimit without output, in this process group (so that stopping the group stops it, too); returns its pid.

    The kernel sends it SIGTERM when this process dies, upon which it continues its target and exits. That signal is set
    between fork and exec, which is safe in a single-threaded process. The main thread must do the fork, because the
    parent-death signal follows the thread.
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
            # an empty environment, except for the marks that identify the processes of a run
            marks = {name: value for name, value in os.environ.items() if name.startswith("STRAGGLAB_")}
            os.execve(argv[0], argv, marks)
    finally:
        os._exit(127)


class Enforced(msgspec.Struct, frozen=True, kw_only=True):
    """The cpulimit of one process."""

    pid: int | None
    """Its pid; None: not running, because the target is paused or because it has just exited."""
    percent: int | None
    """Limit in percent of one core."""
    restarts: int
    """Number of times that it exited by itself or was killed."""
    last_exit: int | None
    """Exit code of the last time, or minus the signal."""


@dataclass
class _Watch:
    """The wanted limit of one process, and the cpulimit that enforces it."""

    target: int
    percent: int | None
    """Wanted limit in percent; None: no limit."""
    child: int | None = None
    """Pid of the running cpulimit."""
    child_percent: int = 0
    ending: bool = False
    """Whether it has been asked to exit."""
    started_s: float = -math.inf
    restarts: int = 0
    last_exit: int | None = None


@final
class Limiter:
    """Keeps one cpulimit running for every process that has a limit.

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
        """Limit a process to a percentage of one core from now on; None removes the limit."""
        if percent is None and target not in self._watches:
            return
        watch = self._watches.setdefault(target, _Watch(target, percent))
        watch.percent = percent
        self._settle(watch)

    def forget(self, target: int) -> None:
        """Stop limiting a process that is gone, since its pid may be reused.

        Its cpulimit is asked to exit, and about a millisecond later continues that pid once more, as it always does.
        """
        self.limit(target, None)
        self._watches.pop(target, None)

    def reaped(self, pid: int, status: int) -> bool:
        """Whether this child was one of our cpulimits.

        If so, restore the state that its target should have, and restart cpulimit if the limit is still wanted.
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
        """Start what was deferred; returns seconds until the next call is needed, infinity if nothing is pending."""
        wait_s = math.inf
        for watch in self._watches.values():
            if watch.percent is not None and watch.child is None:
                self._settle(watch)
                if watch.child is None:
                    wait_s = min(wait_s, max(watch.started_s + RETRY_S - now, 0.0))
        return wait_s

    def enforced_limit(self, target: int) -> Enforced | None:
        """Return the limit enforced on a process; None if it never had one."""
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
        """Stop all cpulimits, wait for them, and restore the state that their targets should have."""
        for target in list(self._watches):
            self.limit(target, None)
        deadline = time.monotonic() + END_S
        while self._children and time.monotonic() < deadline:
            for pid in list(self._children):
                self._reap(pid)
            time.sleep(0.001)
        # one that does not exit gets its parent-death signal when this process ends; until then no target stays stopped
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
        """Bring the running cpulimit in line with the wanted limit, one step at a time: two would fight each other."""
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
            self._send(child, signal.SIGCONT)  # a stopped process would not react to SIGTERM
