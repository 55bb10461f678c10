"""CPU quotas of process groups, enforced by stopping and continuing: like a cgroup, without privilege.

Coarser than a cgroup (a tick instead of a scheduler slice) and as exact in the long run: any excess use, whatever its
cause, becomes debt and is paid off by being stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import final

from injectors.actuators.stops import WATCH_S, Stops

TICK_S = 0.005
"""Sampling interval of a running group. Halving it halves the jitter of an iteration and doubles our own CPU use."""
BURST_TICKS = 2
"""Unused credit expires after this, so that a group that was idle may not catch up afterwards."""
DENIED_S = 0.1
"""Credit of a group that is kept stopped is granted if a tick comes late; older credit is forfeited."""
LONGEST_STOP_S = 0.75
"""After this long a group in debt runs for one tick, and stays in debt: a silent process would be declared lost.

So a group uses at least ``TICK_S / LONGEST_STOP_S`` (0.7 %) of the cores that it can keep busy at once, and more if
ticks come late: with 20 ms, 3 %.
"""
MIN_CORES = 0.01
"""Smallest quota: with less, one tick would be paid off by a stop longer than :data:`LONGEST_STOP_S`."""


def cpu_seconds(pid: int) -> float:
    """CPU time used by all threads of a process; raises ``OSError`` when the process is gone."""
    return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of a process, as in linux/posix-timers.h


def check_cores(group: str, cores: float) -> None:
    """Raise ``ValueError`` for a quota that cannot be enforced."""
    if not MIN_CORES <= cores < math.inf:
        raise ValueError(f"{group}: {cores:g} cores cannot be held; {MIN_CORES:g} is the least (or let it pause)")


@final
class Budget:
    """Quota and use of a group; decides whether the group must be stopped. Pure: time is an argument.

    ``cores`` may be used on average; ``balance_s`` is unused CPU time, or debt if it is negative.
    """

    def __init__(self, cores: float, tick_s: float = TICK_S) -> None:
        self.cores, self.tick_s = cores, tick_s
        self.balance_s = 0.0
        self.held = False
        self._settled: float | None = None
        self._held_since = 0.0

    def settle(self, now: float, used_s: float) -> bool:
        """Whether to stop the group, given the CPU time that it has used since the last call.

        The first call only opens the account.
        """
        if self._settled is not None:
            kept_s = self.cores * (DENIED_S if self.held else BURST_TICKS * self.tick_s)
            balance_s = self.balance_s + self.cores * (now - self._settled) - used_s
            self.balance_s = min(balance_s, max(kept_s, self.balance_s))
        self._settled = now
        hold = self.balance_s < 0 and not (self.held and now - self._held_since >= LONGEST_STOP_S)
        if hold and not self.held:
            self._held_since = now
        self.held = hold
        return hold

    def wait_s(self, now: float) -> float:
        """Seconds until the next call is useful: a stopped group pays off its debt at a known rate."""
        if not self.held:
            return self.tick_s
        wait_s = min(-self.balance_s / self.cores, self._held_since + LONGEST_STOP_S - now, WATCH_S)
        return max(wait_s, self.tick_s)


@dataclass
class _Group:
    pids: set[int] = field(default_factory=set)
    used_s: float = 0.0
    """CPU time of all its processes, including dead ones up to their last sample."""
    charged_s: float = 0.0
    """The part of it that the budget has accounted for."""
    budget: Budget | None = None
    told_s: float = 0.0
    """The part of it at the last query of the share, at ``told_at``."""
    told_at: float = math.nan


@dataclass
class _Member:
    groups: tuple[str, ...]
    cpu_s: float
    """CPU time at the last sample."""


@final
class Governor:
    """Enforces quotas on groups. A process belongs to one or more groups, and is stopped while any of them is in debt.

    CPU time used between the last sample of a process and its end is missed. Child processes are not threads: they are
    neither counted nor stopped.
    """

    def __init__(self, stops: Stops, read: Callable[[int], float] = cpu_seconds, tick_s: float = TICK_S) -> None:
        self._stops, self._read, self._tick_s = stops, read, tick_s
        self._groups: dict[str, _Group] = {}
        self._members: dict[int, _Member] = {}
        self._due = -math.inf

    def set_quota(self, group: str, cores: float | None) -> None:
        """Limit a group to this many cores from now on, or remove its limit; a new quota opens a new account."""
        one = self._groups.setdefault(group, _Group())
        if one.budget and one.budget.cores == cores:
            return
        if cores is not None:
            check_cores(group, cores)
        if one.budget and one.budget.held:
            self._set_held(group, False)
        one.budget = None if cores is None else Budget(cores, self._tick_s)
        self._due = -math.inf

    def add(self, pid: int, groups: Iterable[str]) -> None:
        """Add a process to these groups; stop it immediately if one of them is in debt."""
        try:
            self._members[pid] = _Member(tuple(groups), self._read(pid))
        except OSError:
            return
        for group in self._members[pid].groups:
            one = self._groups.setdefault(group, _Group())
            one.pids.add(pid)
            if one.budget and one.budget.held:
                self._stops.hold(pid, _reason(group))
        self._due = -math.inf

    def remove(self, pid: int) -> None:
        """Remove a process that is gone, or that is no longer to be limited."""
        if pid in self._members:
            self._drop(pid)

    def tick(self, now: float) -> float:
        """Settle all accounts that are due; returns seconds until the next call, infinity without any quota."""
        if now < self._due:
            return self._due - now
        held_to = {name: one for name, one in self._groups.items() if one.budget and one.pids}
        for pid in {pid for one in held_to.values() for pid in one.pids}:
            self._look(pid)
        wait_s = math.inf
        for name, one in held_to.items():
            assert one.budget
            was_held = one.budget.held
            hold = one.budget.settle(now, one.used_s - one.charged_s)
            one.charged_s = one.used_s
            if hold or was_held:
                self._set_held(name, hold)
            wait_s = min(wait_s, one.budget.wait_s(now))
        self._due = now + wait_s
        return wait_s

    def share(self, group: str, now: float) -> float:
        """Cores that a group has used on average since the last call (NaN the first time), with or without a quota."""
        one = self._groups.setdefault(group, _Group())
        for pid in list(one.pids):
            self._look(pid)
        elapsed_s, used_s = now - one.told_at, one.used_s - one.told_s
        one.told_at, one.told_s = now, one.used_s
        return used_s / elapsed_s if elapsed_s > 0 else math.nan

    def close(self) -> None:
        """Remove all quotas and continue every process."""
        for group in self._groups:
            self.set_quota(group, None)

    def _look(self, pid: int) -> None:
        member = self._members.get(pid)
        if member is None:
            return
        try:
            cpu_s = self._read(pid)
        except OSError:
            self._stops.forget(pid)
            self._drop(pid)
            return
        for group in member.groups:
            self._groups[group].used_s += cpu_s - member.cpu_s
        member.cpu_s = cpu_s

    def _drop(self, pid: int) -> None:
        for group in self._members.pop(pid).groups:
            self._groups[group].pids.discard(pid)
            self._stops.release(pid, _reason(group))

    def _set_held(self, group: str, held: bool) -> None:
        for pid in self._groups[group].pids:
            if held:
                self._stops.hold(pid, _reason(group))
            else:
                self._stops.release(pid, _reason(group))


def _reason(group: str) -> str:
    return f"duty {group}"
