"""A live lab: jobs side by side in one process; one loop, one set of machines, one reaction to signals, one end."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol, final

from runtime.api import Crashed, Launcher, Outcome, never_began
from runtime.cluster.hosts import Hosts
from runtime.errors import ConfigError, is_full
from runtime.live.control.job import LiveJob
from runtime.live.control.job_resources import JobResources
from runtime.live.machines.mechanisms import Mechanisms
from runtime.live.machines.shared import build_shared
from runtime.live.transport.loop import Loop

TURN_S, ENDING_TURN_S = 1.0, 0.1
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Make = Callable[[JobResources], LiveJob]
"""Makes a job when it starts."""
Ended = Callable[[Outcome], None]


class Submitter(Protocol):
    """The source of jobs while the lab runs."""

    @property
    def to_come(self) -> bool:
        """Whether something is scheduled that may add one."""

    def closing(self) -> None:
        """All jobs are over, and the machines are about to go."""


@final
class LiveLab:
    """Runs jobs that start at different times on the same machines: this one, or emulated hosts.

    Args:
        hosts: emulated, for all jobs; None: this machine as it is.
        mechanisms: how they are emulated, and how a plan is carried out.
        launcher: makes what starts the agents of one job.
        loop: a loop on which that waits for them, and which ends with this lab.
        release: called at the end, before that loop is closed.
    """

    submitter: Submitter | None = None
    """Adds jobs while others run; None: all are added before."""

    def __init__(
        self,
        hosts: Hosts | None,
        mechanisms: Mechanisms,
        launcher: Callable[[], Launcher],
        loop: Loop | None = None,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self.loop = Loop(loop)
        self.hosts, self.machines = hosts, build_shared(hosts, mechanisms)
        self.interrupted_by = 0
        self._launcher, self._launchers = launcher, list[Launcher]()
        self._waiting = 0
        self._names: set[str] = set()
        self._running: list[LiveJob] = []
        self._outcomes: dict[str, Outcome] = {}
        self._ended: dict[str, Ended] = {}
        self._crashed: dict[str, Crashed] = {}
        self._closing = ExitStack()
        self._closing.callback(self.loop.close)
        self._closing.callback(release)
        self._closing.callback(self.machines.close)

    def add(
        self,
        name: str,
        make: Make,
        start_s: float = 0.0,
        ended: Ended | None = None,
        crashed: Crashed | None = None,
    ) -> None:
        """A job that starts in ``start_s``; raises ``ValueError`` for a name that is in use.

        ``ended(outcome)`` is called when it is over and nothing of it remains. ``crashed(error)`` is called for an
        unexpected error while it is created or while it runs, and returns why it failed; None: that ends the lab.
        """
        if name in self._names:
            raise ValueError(f"name={name}: another job of this lab is called so")
        self._names.add(name)
        self._waiting += 1
        if ended is not None:
            self._ended[name] = ended
        if crashed is not None:
            self._crashed[name] = crashed
        self.loop.after(start_s, lambda: self._start(name, make))

    def job(self, name: str) -> LiveJob | None:
        """A job that runs; None: it has not begun, or nothing of it remains."""
        return next((job for job in self._running if job.name == name), None)

    def run(self) -> dict[str, Outcome]:
        """Run until all jobs are over; returns the outcomes by name (after an interrupt: of started jobs)."""
        with self._closing:
            self._watch_interrupts()
            while self._running or ((self._waiting or self._adds_more) and not self.interrupted_by):
                self._turn()
            if self.submitter is not None:
                self.submitter.closing()
        return self._outcomes

    @property
    def _adds_more(self) -> bool:
        return self.submitter is not None and self.submitter.to_come

    def _start(self, name: str, make: Make) -> None:
        self._waiting -= 1
        if self.interrupted_by:
            return
        launcher = self._launcher()
        self._launchers.append(launcher)
        try:
            job = make(JobResources(name, self.loop, self.machines, launcher))
        except Exception as error:  # noqa: BLE001 (of one job, or it is raised)
            self._over(name, never_began(self._reason(name, error)))
            return
        self._closing.callback(job.close)
        self._running.append(job)
        try:
            if len(self._names) > 1 and self.hosts is not None:
                refuse_to_share(job, self.hosts)
            job.begin()
        except Exception as error:  # noqa: BLE001 (of one job, or it is raised)
            job.session.failed(self._reason(name, error))

    def _reason(self, name: str, error: Exception) -> str:
        """Why a job fails for an error that only it has; raises the error if it concerns all."""
        crashed = self._crashed.get(name)
        if crashed is None or is_full(error):
            raise error
        return crashed(error)

    def _over(self, name: str, outcome: Outcome) -> None:
        self._outcomes[name] = outcome
        if (ended := self._ended.pop(name, None)) is not None:
            ended(outcome)

    def _turn(self) -> None:
        try:
            ending = any(job.over for job in self._running)
            self.loop.turn(ENDING_TURN_S if ending else TURN_S)
        except Exception as error:
            job = next((job for job in self._running if job.loop is self.loop.called), None)
            if job is None:
                raise
            if isinstance(error, OSError) and is_full(error):
                self._out_of_space(error, job)
            else:
                job.session.failed(self._reason(job.name, error))
        for job in self._running[:]:
            try:
                gone = job.advance()
            except OSError as error:
                self._out_of_space(error, job)
                continue
            if gone:
                assert job.outcome is not None
                self._running.remove(job)
                self._over(job.name, job.outcome)

    @staticmethod
    def _out_of_space(error: OSError, job: LiveJob | None) -> None:
        """End a job whose disk is full; any other error is unexpected."""
        if job is None or not is_full(error):
            raise error
        job.out_of_space(error)

    # ---- interrupts --------------------------------------------------------------------------------------------------

    def _watch_interrupts(self) -> None:
        """Ctrl-C, SIGTERM and SIGHUP end all jobs in good order; a second one ends them at once."""
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
            self._closing.callback(sock.close)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self._closing.callback(signal.set_wakeup_fd, -1)
        self.loop.watch(ours, lambda _: self._obey_interrupt(ours))
        self._closing.callback(self.loop.forget, ours)

        def interrupt(number: int, _: object) -> None:
            # only noted here, since it may come in the middle of a decision; it also wakes the loop
            if self.interrupted_by or not (self._running or self._adds_more):
                for launcher in self._launchers:
                    launcher.kill_all()
                os._exit(128 + number)
            self.interrupted_by = number
            for job in self._running:
                job.spec.interrupted_by = number

        for number in SIGNALS:
            signal.signal(number, interrupt)

    def _obey_interrupt(self, waker: socket.socket) -> None:
        waker.recv(64)
        if self.interrupted_by:
            for job in self._running:
                job.interrupt(self.interrupted_by)


def refuse_to_share(job: LiveJob, hosts: Hosts | None) -> None:
    """Raise ``ConfigError`` unless jobs on the same hosts describe them alike and disturb only their own tasks."""
    theirs = job.machines.hosts
    if (hosts and hosts.machines) != (theirs and theirs.machines):
        raise ConfigError(f"cluster.hosts: {job.name} describes other hosts than its lab; describe the same ones")
    shared = sorted(one for one in job.spec.around.disturbed if one.startswith(("host:", "link:")))
    if shared:
        raise ConfigError(f"straggler: disturbs {shared[0]}, which {job.name} shares with other jobs; name its tasks")
    if job.machines.mechanisms.host_quotas == "duty":
        raise ConfigError("cluster.hosts.cpu_cores: each agent would give its job all of it; it needs control groups")
