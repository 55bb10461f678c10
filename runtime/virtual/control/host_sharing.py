"""Prevention in a lab: measures the jobs on shared hosts, asks the policy, and carries out what it grants."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import final

from runtime.core.shared_hosts import SharedHosts, Task
from runtime.virtual.clock import TIMER, Clock
from runtime.virtual.control.loads import SAMPLE_S, Loads
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from runtime.virtual.machines.tenancy import Tenancy
from strategies.protocol import (
    RESOURCES,
    Asked,
    HostRoom,
    JobLoad,
    Prevention,
    Reserve,
    Reserved,
    Share,
    TaskLoad,
    limit_of,
)

Note = Callable[..., None]
"""Writes a fact at a time of the lab: ``note(t, kind, **fields)``."""


def silent(t: float, kind: str, /, **fields: object) -> None:
    """No record of the lab."""


@final
class HostSharing:
    """One lab's shared hosts, and its jobs' reservations of them.

    Its notes, each with the name of the job that has asked:

    - ``Reserved``: granted; ``shares``, the new shares of all tasks whose share has changed, and ``added_s``, the
      expected additional seconds of the other jobs' iterations;
    - ``Refused``: ``reason``;
    - ``Released``: the job has given back what it had, or has ended.
    """

    def __init__(
        self, machines: ModelledMachines, sites: Sequence[Site], policy: Prevention, note: Note = silent
    ) -> None:
        self.machines, self.policy, self.note = machines, policy, note
        self.books = SharedHosts(tuple(room_of(site) for site in sites))
        self._jobs: dict[str, tuple[VirtualSession, Tenancy, str]] = {}
        self._before: dict[str, JobLoad] = {}
        """The needs of jobs before they reserved anything, as long as they hold something."""
        self._unlimited: dict[Task, TaskLoad] = {}
        """The needs of tasks before they were limited, as long as they are limited."""
        self._limits: dict[Task, Share] = {}
        """Limits that are carried out, of tasks while they work."""
        self._sampling = False

    def enter(self, session: VirtualSession, tenancy: Tenancy, model: str = "") -> None:
        """A job that is about to begin is measured from now on."""
        self.machines.clock.catch_up()
        session.loads = Loads(tenancy, session.servers, session.workers, session.coordinator)
        session.rehoused = self.rehoused
        self._jobs[tenancy.name] = (session, tenancy, model)
        if not self._sampling:
            self._sampling = True
            self._sample()

    def leave(self, job: str, *, returns: bool = False) -> None:
        """A job is over, with its tasks still on the machines; or it was preempted, and ``returns`` without limits."""
        self.machines.clock.catch_up()
        session, tenancy, _ = self._jobs[job]
        for node in [node for name, node in self._limits if name == job and returns]:
            if tenancy.limit(node, None, None):
                session.limited(node, None, None)
        if self.books.holds(job):
            self.note(self._now, "Released", job=job)
        self.books.forget(job)
        self._before.pop(job, None)
        del self._jobs[job]
        self._limits = {task: limit for task, limit in self._limits.items() if task[0] != job}
        self._carry_out()

    def rehoused(self) -> None:
        """A task may be on another host: its share of the former one, granted or left to it, has ended."""
        self.machines.clock.catch_up()
        self._drop_departed()
        self._carry_out()

    def reserve(self, job: str, t: float, command: Reserve) -> Reserved:
        """Answer a job, at its time ``t``."""
        self._drop_departed()
        if not command.demands:
            if self.books.holds(job):
                self.books.release(job)
                self._before.pop(job, None)
                self._carry_out()
                self.note(self._now, "Released", job=job)
            return Reserved(t=t, ok=True)
        if self.policy.takes and (unknown := self._unknown()):
            return self._refuse(job, t, f"it is not known yet what {', '.join(unknown)} need")
        without = copy.deepcopy(self.books)
        without.release(job)
        loads = {name: self._load(name, without, asks=name == job) for name in self._jobs}
        loads[job] = before = self._before.get(job, loads[job])
        grant = self.policy.answer(
            Asked(
                job=job,
                demands=command.demands,
                worth_s=command.worth_s,
                jobs=tuple(loads.values()),
                hosts=tuple(self.books.rooms.values()),
            )
        )
        if not grant.ok:
            return self._refuse(job, t, grant.reason)
        hosts = {(load.job, task.node): task.host for load in loads.values() for task in load.tasks}
        self.books.grant(job, grant, hosts)
        self._before[job] = before
        for load in loads.values():
            for task in load.tasks:
                self._unlimited.setdefault((load.job, task.node), task)
        self._carry_out()
        shares = [{"job": task[0], **_plain(share)} for task, share in grant.shares.items()]
        self.note(self._now, "Reserved", job=job, shares=shares, added_s=grant.added_s)
        return Reserved(t=t, ok=True, shares=self.books.granted_to(job))

    def _refuse(self, job: str, t: float, reason: str) -> Reserved:
        self.note(self._now, "Refused", job=job, reason=reason)
        return Reserved(t=t, ok=False, reason=reason)

    def _unknown(self) -> list[str]:
        """Jobs that have just begun."""
        loads = {name: session.loads for name, (session, _, _) in self._jobs.items()}
        return [name for name, load in loads.items() if load is not None and not load.known]

    @property
    def _now(self) -> float:
        return self.machines.clock.now

    def _load(self, job: str, books: SharedHosts, *, asks: bool) -> JobLoad:
        session, _, model = self._jobs[job]
        held = {node: books.share_of((one, node)) for one, node in books.tasks() if one == job}
        assert session.loads is not None
        return session.loads.measured(job, self._now, model, asks=asks, held=held)

    def _drop_departed(self) -> None:
        """Tasks that have left, or live on another host now, hold nothing."""
        for job, node in self.books.tasks():
            if self._jobs[job][0].coordinator.place_of(node) != self.books.host_of((job, node)):
                self.books.forget(job, node)

    def _carry_out(self) -> None:
        """Limit tasks as the books say, first those that get less."""
        shares = {task: self.books.limit_of(task) for task in self.books.tasks()}
        wanted = {task: limit for task, share in shares.items() if (limit := self._limit(task, share)) is not None}
        for task in sorted(self._limits.keys() | wanted.keys(), key=lambda task: (task not in wanted, task)):
            limit = wanted.get(task, Share(node=task[1]))
            if limit != self._limits.get(task, Share(node=task[1])):
                session, tenancy, _ = self._jobs[task[0]]
                if tenancy.limit(task[1], limit.cpu_cores, limit.link_bytes_per_s):
                    session.limited(task[1], limit.cpu_cores, limit.link_bytes_per_s)
        self._limits = wanted
        self._unlimited = {task: load for task, load in self._unlimited.items() if task in self.books.tasks()}

    def _limit(self, task: Task, share: Share) -> Share | None:
        """Return the limit while a task works that keeps its use within a share; None for no limit."""
        if share.cpu_cores is None and share.link_bytes_per_s is None:
            return None
        load = self._unlimited[task]
        cores, rate = share.cpu_cores, share.link_bytes_per_s
        return Share(
            node=task[1],
            cpu_cores=_limit_of(cores, load.cpu_cores, load.peak_cores),
            link_bytes_per_s=_limit_of(rate, load.link_bytes_per_s, load.peak_bytes_per_s),
        )

    def _sample(self) -> None:
        """Read what servers use, as long as there are jobs."""
        self._sampling = bool(self._jobs)
        if not self._sampling:
            return
        for session, _, _ in self._jobs.values():
            if session.loads is not None:
                session.loads.sample(self._now)
        self.machines.clock.at(self._now + SAMPLE_S, TIMER, self._sample)


@final
class ReservationClient:
    """Where one job of the lab asks, which has this clock."""

    def __init__(self, sharing: HostSharing, job: str, clock: Clock) -> None:
        self.sharing, self.job, self.clock = sharing, job, clock

    def reserve(self, t: float, command: Reserve) -> Reserved:
        self.sharing.machines.clock.catch_up()
        answer = self.sharing.reserve(self.job, t, command)
        self.clock.catch_up()
        return answer


def room_of(site: Site) -> HostRoom:
    """Return the room of a machine for its tasks together."""
    cores, rate = (None if amount == float("inf") else amount for amount in (site.cores, site.link_bytes_per_s))
    return HostRoom(host=site.name, cpu_cores=cores, link_bytes_per_s=rate)


def _limit_of(share: float | None, before: float, peak: float) -> float | None:
    """Return the limit of a task's use while it works; None for no limit."""
    limit = math.inf if share is None or not before else limit_of(share, before, peak)
    return limit if limit < math.inf else None


def _plain(share: Share) -> dict[str, object]:
    amounts = {resource: getattr(share, resource) for resource in RESOURCES}
    return {"node": share.node} | {name: amount for name, amount in amounts.items() if amount is not None}
