"""All that is done to the processes of a run: rules by the name of a task or host, carried out on what lives of it.

A rule is a level, not an event: what is set for ``worker:1`` holds for its next incarnation too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

import msgspec

from injectors.actuators.cpulimit import MISSING, Enforced, Limiter, find_program, percent_of
from injectors.actuators.duty import Governor, check_cores
from injectors.actuators.stops import WATCH_S, Stops

PAUSE = "pause"

By = Literal["duty", "cpulimit"]


class CpuRule(msgspec.Struct, frozen=True, kw_only=True):
    """A quota in cores, of a task or of all tasks of a host together."""

    cores: float
    """As it is enforced: cpulimit knows whole percents only."""
    by: By


class Throttled(msgspec.Struct, frozen=True, kw_only=True):
    """What is being done to a task that lives."""

    pid: int
    host: str
    stopped_by: list[str]
    """Why it stands still at the moment."""
    cpulimit: Enforced | None


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force."""

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
    """Owned by the parent of the processes, which calls :meth:`tick` in its loop and tells of every start and end.

    One rule per target: a quota replaces the one before, whoever enforces it. Quotas of a task and of its host nest
    (``duty``). cpulimit continues its process whenever it sees fit, so it works neither beside ``duty`` (refused) nor
    on a process that pauses (its limit rests until the pause is over).
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
        """Of every task that has ever been seen: it comes back where it was."""
        self._watched = -math.inf

    # ---- what lives --------------------------------------------------------------------------------------------------

    def started(self, task: str, host: str, pid: int) -> None:
        """A task has a (new) process; ``host`` is empty where there are no hosts.

        It may stand still from now on. So tell us only once it has tied its life to yours (``die_with``): a process
        that is stopped before would outlive you.
        """
        self._hosts[task] = host
        self._living[task] = _Process(pid, task, host)
        self._governor.add(pid, (task, host) if host else (task,))
        self._apply(self._living[task])

    def ended(self, task: str, pid: int) -> None:
        """It has been reaped, or is about to be: nothing is sent to it any more."""
        if task in self._living and self._living[task].pid == pid:
            del self._living[task]
        self._stops.forget(pid)
        self._governor.remove(pid)
        self._limiter.forget(pid)

    # ---- what is to be -----------------------------------------------------------------------------------------------

    def set_cpu(self, target: str, cores: float | None, by: str = "duty") -> float | None:
        """Hold a task, or all tasks of a host together, to so many cores; None: let it go. Returns what is in force.

        Raises ``ValueError``, and changes nothing, for what cannot be enforced.
        """
        rule = None if cores is None else self._rule(target, cores, by)
        self._cpu.pop(target, None)
        if rule:
            self._cpu[target] = rule
        self._governor.set_quota(target, rule.cores if rule and rule.by == "duty" else None)
        for process in self._of(target):
            self._apply(process)
        return rule.cores if rule else None

    def freeze(self, target: str, on: bool) -> float:
        """Let a task, or all tasks of a host, stand still (returns 1), or go on (returns 0)."""
        (self._frozen.add if on else self._frozen.discard)(target)
        for process in self._of(target):
            self._apply(process)
        return float(on)

    # ---- its life ----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> float:
        """Do what is due; seconds until the next call is wanted, infinity when there is nothing to do."""
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
        """Whether a child that has ended was a helper of ours and no task."""
        return self._limiter.reaped(pid, status)

    def share(self, target: str, now: float) -> float:
        """Cores that a task or host has used on average since this was last asked (first: not a number)."""
        return self._governor.share(target, now)

    def state(self) -> State:
        """What is in force, and what it does to whom."""
        tasks = {
            task: Throttled(
                pid=process.pid,
                host=process.host,
                stopped_by=self._stops.reasons(process.pid),
                cpulimit=self._limiter.enforced(process.pid),
            )
            for task, process in self._living.items()
        }
        return State(cpu=dict(self._cpu), frozen=sorted(self._frozen), tasks=tasks)

    def close(self) -> None:
        """All rules end, all helpers end, everybody goes on."""
        self._cpu.clear()
        self._frozen.clear()
        self._governor.close()
        self._limiter.close()
        self._stops.close()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _of(self, target: str) -> Iterator[_Process]:
        yield from [process for process in self._living.values() if target in (process.task, process.host)]

    def _pauses(self, process: _Process) -> bool:
        return process.task in self._frozen or process.host in self._frozen

    def _apply(self, process: _Process) -> None:
        """What is done to a process becomes what the rules say (quotas by duty are the governor's)."""
        rule = self._cpu.get(process.task)
        pauses = self._pauses(process)
        limited = rule is not None and rule.by == "cpulimit" and not pauses
        # first the limit: cpulimit continues its process as it ends, and we stop it again as we reap it
        self._limiter.limit(process.pid, percent_of(rule.cores) if rule and limited else None)
        if pauses:
            self._stops.hold(process.pid, PAUSE)
        else:
            self._stops.release(process.pid, PAUSE)

    def _rule(self, target: str, cores: float, by: str) -> CpuRule:
        """The rule that can be enforced; raises ``ValueError`` with the cure if none can."""
        if by == "duty":
            check_cores(target, cores)
            rule = CpuRule(cores=cores, by="duty")
        elif by == "cpulimit":
            if not self._limiter.program:
                raise ValueError(MISSING)
            if _is_host(target):
                raise ValueError(f"{target}: cpulimit limits one process and a host has several; use duty")
            rule = CpuRule(cores=percent_of(cores) / 100, by="cpulimit")
        else:
            raise ValueError(f"{target}: {by!r} is no actuator; they are duty and cpulimit")
        for other, against in self._cpu.items():
            task, host = (other, target) if _is_host(target) else (target, other)
            if against.by != by and _is_host(host) and other != target and self._hosts.get(task, host) == host:
                raise ValueError(f"{target}: {by} works against {against.by} of {other}; use the same for both")
        return rule


def _is_host(target: str) -> bool:
    return target.startswith("host:")
