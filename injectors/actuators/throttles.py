"""All throttling of a run's processes: rules keyed by task or host name, applied to the running processes.

A rule is a level, not an event: a rule for ``worker:1`` also applies to its next incarnation.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

import msgspec

from injectors.actuators.cpulimit import MISSING, Enforced, Limiter, find_program
from injectors.actuators.cpulimit_grants import percent_for
from injectors.actuators.duty import Governor, check_cores
from injectors.actuators.stops import WATCH_S, Stops
from injectors.plan import target_of

PAUSE = "pause"

By = Literal["duty", "cpulimit"]


class CpuRule(msgspec.Struct, frozen=True, kw_only=True):
    """A CPU quota in cores, of a task or of all tasks of a host together."""

    cores: float
    """As enforced: cpulimit supports whole percents only."""
    by: By
    percent: int | None = None
    """The limit that is given to cpulimit, so that it grants these cores."""


class Throttled(msgspec.Struct, frozen=True, kw_only=True):
    """The throttle on a live task."""

    pid: int
    host: str
    stopped_by: list[str]
    """Why it is stopped at the moment."""
    cpulimit: Enforced | None


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force, and what is applied to each live task."""

    cpu: dict[str, CpuRule]
    frozen: list[str]
    tasks: dict[str, Throttled]


@dataclass
class _Process:
    pid: int
    task: str
    host: str


@final
class Throttles:
    """Owned by the parent of the processes, which calls :meth:`tick` in its loop and reports every start and end.

    One rule per target: a new quota replaces the previous one, even from another mechanism. Quotas of a task and of its
    host nest (``duty``). cpulimit continues its process at times of its own, so it works neither alongside ``duty``
    (refused) nor on a paused process (its limit is suspended during the pause).
    """

    def __init__(
        self, stops: Stops | None = None, governor: Governor | None = None, limiter: Limiter | None = None
    ) -> None:
        self._stops = stops or Stops()
        self._governor = governor or Governor(self._stops)
        self._limiter = limiter or Limiter(self._stops, find_program())
        self._cpu: dict[str, CpuRule] = {}
        self._frozen: set[str] = set()
        self._living: dict[str, _Process] = {}
        self._hosts: dict[str, str] = {}
        """The host of every task ever seen, since a task returns to its host."""
        self._watched = -math.inf

    # ---- live processes
    # ------------------------------------------------------------------------------------------------

    def started(self, task: str, host: str, pid: int) -> None:
        """Report a (new) process of a task; ``host`` is empty where there are no hosts.

        It may be stopped at once, so call this only after the process has tied its life to yours (``die_with``): a
        process stopped before that would outlive you.
        """
        self._hosts[task] = host
        self._living[task] = _Process(pid, task, host)
        self._governor.add(pid, (task, host) if host else (task,))
        self._apply(self._living[task])

    def ended(self, task: str, pid: int) -> None:
        """Report a process that has been reaped or is about to be; it gets no more signals."""
        if task in self._living and self._living[task].pid == pid:
            del self._living[task]
        self._stops.forget(pid)
        self._governor.remove(pid)
        self._limiter.forget(pid)

    # ---- rules ------------------------------------------------------------------------------------------------------

    def set_cpu(self, target: str, cores: float | None, by: str = "duty", running_cores: float = 1.0) -> float | None:
        """Limit a task, or all tasks of a host together, to so many cores (None: no limit); returns the enforced quota.

        ``running_cores``: the target's use while it is not stopped, by which cpulimit grants more or less.
        Raises ``ValueError``, and changes nothing, for a quota that cannot be enforced.
        """
        rule = None if cores is None else self._rule(target, cores, by, running_cores)
        self._cpu.pop(target, None)
        if rule:
            self._cpu[target] = rule
        self._governor.set_quota(target, rule.cores if rule and rule.by == "duty" else None)
        for process in self._of(target):
            self._apply(process)
        return rule.cores if rule else None

    def freeze(self, target: str, on: bool) -> float:
        """Pause a task, or all tasks of a host (returns 1), or let them continue (returns 0)."""
        (self._frozen.add if on else self._frozen.discard)(target)
        for process in self._of(target):
            self._apply(process)
        return float(on)

    # ---- life cycle -------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> float:
        """Do what is due; returns seconds until the next call is needed, infinity if nothing is pending."""
        wait_s = min(self._governor.tick(now), self._limiter.tick(now))
        paused = [process for process in self._living.values() if self._pauses(process)]
        if not paused:
            return wait_s
        if now >= self._watched + WATCH_S:
            self._watched = now
            for process in paused:
                self._stops.hold(process.pid, PAUSE)
        return min(wait_s, self._watched + WATCH_S - now)

    def reaped(self, pid: int, status: int) -> bool:
        """Whether an exited child was one of our helper processes and not a task."""
        return self._limiter.reaped(pid, status)

    def share(self, target: str, now: float) -> float:
        """Cores that a task or host has used on average since the last call (NaN the first time)."""
        return self._governor.share(target, now)

    def state(self) -> State:
        """The rules in force, and what is applied to each task."""
        tasks = {
            task: Throttled(
                pid=process.pid,
                host=process.host,
                stopped_by=self._stops.reasons(process.pid),
                cpulimit=self._limiter.enforced_limit(process.pid),
            )
            for task, process in self._living.items()
        }
        return State(cpu=dict(self._cpu), frozen=sorted(self._frozen), tasks=tasks)

    def close(self) -> None:
        """Remove all rules, end all helper processes, continue every task."""
        self._cpu.clear()
        self._frozen.clear()
        self._governor.close()
        self._limiter.close()
        self._stops.close()

    # ---- internals ---------------------------------------------------------------------------------------------------

    def _of(self, target: str) -> Iterator[_Process]:
        yield from [process for process in self._living.values() if target in (process.task, process.host)]

    def _pauses(self, process: _Process) -> bool:
        return process.task in self._frozen or process.host in self._frozen

    def _apply(self, process: _Process) -> None:
        """Apply the rules to one process (quotas by ``duty`` are enforced by the governor)."""
        rule = self._cpu.get(process.task)
        pauses = self._pauses(process)
        limited = rule is not None and rule.by == "cpulimit" and not pauses
        # first the limit: cpulimit continues its process when it exits, and we stop it again when we reap cpulimit
        self._limiter.limit(process.pid, rule.percent if rule and limited else None)
        if pauses:
            self._stops.hold(process.pid, PAUSE)
        else:
            self._stops.release(process.pid, PAUSE)

    def _rule(self, target: str, cores: float, by: str, running_cores: float) -> CpuRule:
        """The rule as it can be enforced; raises ``ValueError`` with the cure if it cannot be."""
        if by == "duty":
            check_cores(target, cores)
            rule = CpuRule(cores=cores, by="duty")
        elif by == "cpulimit":
            if not self._limiter.program:
                raise ValueError(MISSING)
            if _is_host(target):
                raise ValueError(f"{target}: cpulimit limits one process and a host has several; use duty")
            percent, granted = percent_for(cores, running_cores)
            most = 100 * (os.cpu_count() or 1)  # of more, cpulimit takes no notice
            rule = CpuRule(cores=granted, by="cpulimit", percent=min(percent, most))
        else:
            raise ValueError(f"{target}: {by!r} is no actuator; they are duty and cpulimit")
        for other, against in self._cpu.items():
            task, host = (other, target) if _is_host(target) else (target, other)
            if against.by != by and _is_host(host) and other != target and self._hosts.get(task, host) == host:
                raise ValueError(f"{target}: {by} works against {against.by} of {other}; use the same for both")
        return rule


def _is_host(target: str) -> bool:
    return target_of(target).form == "host"
