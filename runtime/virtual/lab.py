"""A lab on the virtual clock: jobs side by side, each in its own time, on machines of their own or on shared ones."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol, final

import msgspec

from runtime.api import Crashed, Outcome, never_began
from runtime.core.host_sharing import HostSharing, Note, ReservationClient, silent
from runtime.errors import is_full
from runtime.virtual.clock import START, TIMER, Clock
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.control.tenant import VirtualTenant
from runtime.virtual.event_loop.loop import EventLoop, loop_of
from runtime.virtual.garbage import rare_collections
from runtime.virtual.machines.kernel import new_clock, new_timeline
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from runtime.virtual.machines.tenancy import Tenancy
from strategies.protocol import HostRoom, Prevention

LOOK_EVERY = 256
"""Steps between two checks of the wall clock, for the view."""
VIEW_EVERY_S = 0.25

Make = Callable[[Clock, Tenancy | None], VirtualSession]
"""Makes the session of a job when it starts."""
Ended = Callable[[Outcome], None]


class Submitter(Protocol):
    """The source of jobs while the lab runs."""

    @property
    def to_come(self) -> bool:
        """Whether something is scheduled that may add one."""

    def look(self, interrupted_by: int) -> None:
        """Called a few times per second, and when a signal (else 0) ends the lab: it adds no more jobs then."""


class _Tenant(msgspec.Struct, kw_only=True, eq=False):
    """One job of the lab."""

    name: str
    clock: Clock
    make: Make
    ended: Ended | None
    crashed: Crashed | None
    model: str
    session: VirtualSession | None = None
    tenancy: Tenancy | None = None
    loop: EventLoop | None = None
    """Its compiled loop, where there is one."""


@final
class VirtualLab:
    """Runs jobs that start at different times.

    A job on machines of its own records the same bytes at any start time and next to any other jobs. Jobs that share
    the lab's machines slow each other down, as their tasks share processors and links. A job that is over is removed,
    with all its scheduled actions.

    Args:
        shared: the machines that all jobs live on; empty: each job has its own.
        submitter: adds jobs while others run; None: all are added before.
        prevention: decides what jobs on shared machines reserve; None: all is granted, and nobody is limited.
        note: writes what was reserved, in the lab's time.
    """

    def __init__(
        self,
        shared: Sequence[Site] = (),
        submitter: Submitter | None = None,
        prevention: Prevention | None = None,
        note: Note = silent,
    ) -> None:
        self.timeline = new_timeline()
        self.interrupted_by = 0
        """The signal that ends all jobs, if one came."""
        self.machines = ModelledMachines(new_clock(self.timeline), {}, others=shared) if shared else None
        """Those that all jobs share."""
        self.submitter, self.sharing = submitter, None
        if prevention is not None and self.machines is not None:
            clock, rooms = self.machines.clock, [room_of(site) for site in shared]
            self.sharing = HostSharing(rooms, prevention, partial(_now_of, clock), partial(_after, clock), note)
        self._names: set[str] = set()
        self._waiting: list[_Tenant] = []
        self._running: list[_Tenant] = []
        self._outcomes: dict[str, Outcome] = {}
        self._seen_s = -math.inf

    def add(
        self,
        name: str,
        make: Make,
        start_s: float = 0.0,
        ended: Ended | None = None,
        *,
        crashed: Crashed | None = None,
        model: str = "",
    ) -> None:
        """A job that starts at ``start_s`` of the lab's time; raises ``ValueError`` for a name that is in use.

        ``ended(outcome)`` is called when it is over, while its tasks are still there. ``crashed(error)`` is called when
        it cannot be created, or its strategy raises something, and returns why it failed; None: that ends the lab.
        ``model``: what it trains, by which a policy of prevention may know how sensitive it is.
        """
        if name in self._names:
            raise ValueError(f"name={name}: another job of this lab is called so")
        self._names.add(name)
        clock = new_clock(self.timeline, start_s)
        tenant = _Tenant(name=name, clock=clock, make=make, ended=ended, crashed=crashed, model=model)
        self._waiting.append(tenant)
        tenant.clock.at(0.0, START, self._start, tenant)

    def preempt(self, name: str, grace_s: float, left: Callable[[], None]) -> None:
        """A job gives its places back; ``left()`` is called when they are free, unless it ends before."""
        tenant = self._tenant(name)
        if tenant is None or tenant.session is None or tenant.session.over:
            return
        tenant.clock.catch_up()
        tenant.session.preempt(grace_s, partial(self._on_left, tenant, left))

    def _on_left(self, tenant: _Tenant, left: Callable[[], None]) -> None:
        assert tenant.session is not None
        if self.sharing is not None:
            self.sharing.leave(tenant.name, returns=True)
        tenant.clock.catch_up()
        left()

    def resume(self, name: str, hosts: Mapping[str, int]) -> bool:
        """A job that has left continues, with every task on the host of this number; False: it is over."""
        tenant = self._tenant(name)
        if tenant is None or tenant.session is None or tenant.session.over:
            return False
        session = tenant.session
        tenant.clock.catch_up()
        self._share(tenant)
        session.resume(hosts)
        return True

    def reach(self, name: str, act: Callable[[VirtualSession], None]) -> None:
        """Do something with a job that runs, in its own time; nothing if it is over."""
        tenant = self._tenant(name)
        if tenant is not None and tenant.session is not None and not tenant.session.over:
            tenant.clock.catch_up()
            act(tenant.session)

    def _tenant(self, name: str) -> _Tenant | None:
        """A job that runs; None: it is over."""
        return next((tenant for tenant in self._running if tenant.name == name), None)

    def run(self) -> dict[str, Outcome]:
        """Run until all jobs are over; returns the outcomes by name (after an interrupt: of started jobs)."""
        steps = 0
        with interruptible(self), rare_collections():
            while self._waiting or self._running or (self.submitter is not None and self.submitter.to_come):
                steps += self._step()
                if steps >= LOOK_EVERY or self.interrupted_by:
                    steps = 0
                    self._look()
        return self._outcomes

    def _start(self, tenant: _Tenant) -> None:
        self._waiting.remove(tenant)
        tenancy, sharing = None, self.sharing
        if self.machines is not None:
            client = None if sharing is None else ReservationClient(sharing, tenant.name, tenant.clock.catch_up)
            tenancy = tenant.tenancy = Tenancy(tenant.name, tenant.clock, self.machines, client)
        try:
            tenant.session = tenant.make(tenant.clock, tenancy)
        except Exception as error:
            if tenant.crashed is None or is_full(error):
                raise
            self._never_began(tenant, never_began(tenant.crashed(error)), tenancy)
            return
        tenant.session.crashed = tenant.crashed
        self._share(tenant)
        self._running.append(tenant)
        tenant.session.begin()
        if self.machines is None and self.submitter is None:  # whose actions are on the timeline, too
            tenant.loop = loop_of(tenant.session)

    def _share(self, tenant: _Tenant) -> None:
        """A job is about to use the hosts: from now on it is measured for others that reserve something there."""
        session, tenancy, sharing = tenant.session, tenant.tenancy, self.sharing
        if session is not None and tenancy is not None and sharing is not None:
            session.loads = sharing.enter(tenant.name, VirtualTenant(session, tenancy), tenant.model)
            session.rehoused = sharing.rehoused
            tenant.clock.catch_up()

    def _never_began(self, tenant: _Tenant, outcome: Outcome, tenancy: Tenancy | None) -> None:
        """A job that could not be created leaves nothing."""
        self._outcomes[tenant.name] = outcome
        if tenant.ended is not None:
            tenant.ended(outcome)
        tenant.clock.ended = True
        if tenancy is not None:
            tenancy.leave()
        self.timeline.drop_ended()

    def _step(self) -> int:
        """Run the next actions, which may end a job; returns about how many."""
        steps = 0
        try:
            steps = self._loop()
            if not steps:
                self.timeline.advance()
        except OSError as error:
            if not is_full(error):
                raise
            full = next((tenant for tenant in self._running if tenant.clock is self.timeline.clock), None)
            if full is None:  # not a job's record, but the cluster's
                raise
            self._end(full, error)
        for tenant in self._running:
            if tenant.session is not None and tenant.session.over:
                self._end_all()
                break
        return steps or 1

    def _loop(self) -> int:
        """Many decisions of a job that is alone, where it has a compiled loop; 0: none."""
        if self.machines is not None or self.submitter is not None:  # no job has one
            return 0
        alone = len(self._running) == 1 and not self._waiting
        for tenant in self._running:
            if tenant.loop is not None and alone:
                self.timeline.clock = tenant.clock
                return tenant.loop.advance()
            if tenant.loop is not None:
                tenant.loop.leave()
        return 0

    def _end_all(self) -> None:
        """End all jobs that are over."""
        for tenant in [one for one in self._running if one.session is not None and one.session.over]:
            self._end(tenant)

    def _end(self, tenant: _Tenant, error: OSError | None = None) -> None:
        session = tenant.session
        assert session is not None
        if tenant.loop is not None:
            tenant.loop.leave()
        session.spec.interrupted_by = self.interrupted_by
        try:
            outcome = session.end() if error is None else session.out_of_space(error)
        except OSError as full:
            if not is_full(full):
                raise
            outcome = session.out_of_space(full)
        session.spec.interrupted_by = self.interrupted_by  # perhaps in the last evaluation
        self._outcomes[tenant.name] = outcome
        if tenant.ended is not None:
            tenant.ended(outcome)
        tenant.clock.ended = True
        if self.sharing is not None and not session.away:
            self.sharing.leave(tenant.name)
        if tenant.tenancy is not None:
            tenant.tenancy.leave()
        self._running.remove(tenant)
        self.timeline.drop_ended()

    def _look(self) -> None:
        """Show the views and obey an interrupt, periodically."""
        if self.interrupted_by:
            for tenant in self._waiting:
                tenant.clock.ended = True
            self._waiting.clear()
        now_s = time.monotonic()
        shows = now_s - self._seen_s >= VIEW_EVERY_S
        for tenant in self._running:
            assert tenant.session is not None
            if self.interrupted_by:
                if tenant.loop is not None:  # which has what the coordinator must know first
                    tenant.loop.leave()
                tenant.session.interrupt(self.interrupted_by)
            if shows:
                tenant.session.spec.tick(tenant.session.clock.now)
        if self.submitter is not None and (shows or self.interrupted_by):
            self.submitter.look(self.interrupted_by)
        if shows:
            self._seen_s = now_s


def room_of(site: Site) -> HostRoom:
    """Return the room of a machine for its tasks together."""
    cores, rate = (None if amount == math.inf else amount for amount in (site.cores, site.link_bytes_per_s))
    return HostRoom(host=site.name, cpu_cores=cores, link_bytes_per_s=rate)


def _now_of(clock: Clock) -> float:
    clock.catch_up()
    return clock.now


def _after(clock: Clock, delay_s: float, call: Callable[[], None]) -> None:
    clock.at(clock.now + delay_s, TIMER, call)


class Interruptible(Protocol):
    """Work that periodically checks whether it should end."""

    interrupted_by: int


@contextmanager
def interruptible(work: Interruptible) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end the work in good order; a second one ends it at once."""

    def interrupt(number: int, _: object) -> None:
        if work.interrupted_by:
            os._exit(128 + number)
        work.interrupted_by = number

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
