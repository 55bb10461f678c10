"""Prevention on shared hosts in both runtimes: measures jobs, asks the policy, and limits tasks as it grants (pure)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Protocol, final

from runtime.core.loads import SAMPLE_S, Loads, Meter
from runtime.core.shared_hosts import SharedHosts, Task
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
"""Writes a fact now: ``note(kind, **fields)``."""
After = Callable[[float, Callable[[], None]], None]
"""Calls something in so many seconds."""


def silent(kind: str, /, **fields: object) -> None:
    """Write nothing: the lab has no record."""


class Tenant(Meter, Protocol):
    """One job on the hosts, as its runtime measures and limits it."""

    def limit(self, node: str, cpu_cores: float | None, link_bytes_per_s: float | None) -> None:
        """Limit a task while it works, for other jobs' sake, and note that; None: no limit any more.

        The job's own limits stay in force. Nothing happens if the task has left.
        """


@final
class HostSharing:
    """The hosts of one lab, and its jobs' reservations of them.

    Its notes, each with the name of the job that has asked:

    - ``Reserved``: granted; ``shares``, the new shares of all tasks whose share has changed, and ``added_s``, the
      expected additional seconds of the other jobs' iterations;
    - ``Refused``: ``reason``;
    - ``Released``: the job has given back what it had, or has ended.

    ``now`` returns the lab's time in seconds, ``after`` calls back by that clock.
    """

    def __init__(
        self,
        rooms: Sequence[HostRoom],
        policy: Prevention,
        now: Callable[[], float],
        after: After,
        note: Note = silent,
    ) -> None:
        self.policy, self.note = policy, note
        self.books = SharedHosts(tuple(rooms))
        self._now, self._after = now, after
        self._jobs: dict[str, tuple[Tenant, Loads, str]] = {}
        self._before: dict[str, JobLoad] = {}
        """The needs of jobs before they reserved anything, as long as they hold something."""
        self._unlimited: dict[Task, TaskLoad] = {}
        """The needs of tasks before they were limited, as long as they are limited."""
        self._limits: dict[Task, Share] = {}
        """Limits that are carried out, of tasks while they work."""
        self._sampling = False

    def enter(self, job: str, tenant: Tenant, model: str = "") -> Loads:
        """A job that is about to begin is measured from now on; tell the result of its gradients."""
        loads = Loads(tenant)
        self._jobs[job] = (tenant, loads, model)
        if not self._sampling:
            self._sampling = True
            self._sample()
        return loads

    def leave(self, job: str, *, returns: bool = False) -> None:
        """A job is over, with its tasks still on the machines; or it was preempted, and ``returns`` without limits.

        Nothing happens if it has left.
        """
        if job not in self._jobs:
            return
        self._now()
        tenant, _, _ = self._jobs[job]
        for node in [node for name, node in self._limits if name == job and returns]:
            tenant.limit(node, None, None)
        if self.books.holds(job):
            self.note("Released", job=job)
        self.books.forget(job)
        self._before.pop(job, None)
        del self._jobs[job]
        self._limits = {task: limit for task, limit in self._limits.items() if task[0] != job}
        self._carry_out()

    def rehoused(self) -> None:
        """A task may be on another host: its share of the former one, granted or left to it, has ended."""
        self._now()
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
                self.note("Released", job=job)
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
        self.note("Reserved", job=job, shares=shares, added_s=grant.added_s)
        return Reserved(t=t, ok=True, shares=self.books.granted_to(job))

    def _refuse(self, job: str, t: float, reason: str) -> Reserved:
        self.note("Refused", job=job, reason=reason)
        return Reserved(t=t, ok=False, reason=reason)

    def _unknown(self) -> list[str]:
        """Jobs that have just begun."""
        return [name for name, (_, loads, _) in self._jobs.items() if not loads.known]

    def _load(self, job: str, books: SharedHosts, *, asks: bool) -> JobLoad:
        _, loads, model = self._jobs[job]
        held = {node: books.share_of((one, node)) for one, node in books.tasks() if one == job}
        return loads.measured(job, self._now(), model, asks=asks, held=held)

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
                self._jobs[task[0]][0].limit(task[1], limit.cpu_cores, limit.link_bytes_per_s)
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
        for _, loads, _ in self._jobs.values():
            loads.sample(self._now())
        self._after(SAMPLE_S, self._sample)


@final
class ReservationClient:
    """Where one job asks; ``back`` is called after every answer, when other jobs have been limited."""

    def __init__(self, sharing: HostSharing, job: str, back: Callable[[], None] = lambda: None) -> None:
        self.sharing, self.job, self._back = sharing, job, back

    def reserve(self, t: float, command: Reserve) -> Reserved:
        answer = self.sharing.reserve(self.job, t, command)
        self._back()
        return answer


def _limit_of(share: float | None, before: float, peak: float) -> float | None:
    """Return the limit of a task's use while it works; None for no limit."""
    limit = math.inf if share is None or not before else limit_of(share, before, peak)
    return limit if limit < math.inf else None


def _plain(share: Share) -> dict[str, object]:
    amounts = {resource: getattr(share, resource) for resource in RESOURCES}
    return {"node": share.node} | {name: amount for name, amount in amounts.items() if amount is not None}
