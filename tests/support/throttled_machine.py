"""A machine of our own for the throttles: its clock, its processes, what was sent to them."""

from __future__ import annotations

import signal
from random import Random

from injectors.actuators.cpulimit import Limiter
from injectors.actuators.duty import Governor
from injectors.actuators.stops import Stops
from injectors.actuators.throttles import Throttles

STOP, GO, TERM, KILL = signal.SIGSTOP, signal.SIGCONT, signal.SIGTERM, signal.SIGKILL


class Machine:
    """Processes that use a core each while they run, on a clock of its own."""

    def __init__(self, *pids: int) -> None:
        self.now = 1000.0
        self.cpu_s = dict.fromkeys(pids, 0.0)
        self.stopped: set[int] = set()
        self.idle: set[int] = set()
        self.sent: list[tuple[int, int]] = []
        self.started: list[list[str]] = []
        self.helpers: set[int] = set()
        self.stops = Stops(self.send)
        self.governor = Governor(self.stops, self.read)
        limiter = Limiter(self.stops, "/bin/cpulimit", self.start, self.send, lambda: self.now)
        self.throttles = Throttles(self.stops, self.governor, limiter)

    def fork(self, *pids: int) -> None:
        self.cpu_s.update(dict.fromkeys(pids, 0.0))

    def start(self, argv: list[str]) -> int:
        """A cpulimit, with a pid of its own."""
        self.started.append(argv)
        self.helpers.add(9000 + len(self.started))
        return 9000 + len(self.started)

    def send(self, pid: int, number: int) -> None:
        if pid not in self.cpu_s and pid not in self.helpers:
            raise ProcessLookupError
        self.sent.append((pid, number))
        if pid in self.cpu_s and number in (STOP, GO):
            (self.stopped.add if number == STOP else self.stopped.discard)(pid)

    def reap(self, helper: int, status: int) -> None:
        self.helpers.remove(helper)
        assert self.throttles.reaped(helper, status)

    def read(self, pid: int) -> float:
        if pid not in self.cpu_s:
            raise OSError
        return self.cpu_s[pid]

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        for pid in self.cpu_s:
            if pid not in self.stopped | self.idle:
                self.cpu_s[pid] += seconds

    def run(self, seconds: float, late_s: float = 0.0) -> None:
        """With ticks when they are wanted, or later by up to ``late_s``."""
        end, chance = self.now + seconds, Random(0)
        while self.now < end:
            wait_s = self.throttles.tick(self.now) + chance.uniform(0, late_s)
            self.pass_(min(wait_s, end - self.now + 1e-9))
