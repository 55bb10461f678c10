"""Carries out the plan of a live run: every change of a level is sent to its actuator, and the result is recorded.

Delays and slow-downs are slept by the workers and servers themselves (they come with the coordinator's orders); all
else is here. Rules belong to targets, not to processes: a restarted task meets the rule in effect for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from typing import Literal, Protocol

from injectors.plan import OF_MEMBERS, RULES, Kind, target_name, target_of
from injectors.schedule import Change, Schedule
from runtime.cluster.gpu_hogs import DeviceUsers
from runtime.errors import is_full
from runtime.live.control.link_pacing import LinkPacing, LinkRate
from runtime.live.machines.machines import HostMachines
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import Actuated, Freeze, MalformedMessage, Message, Occupy, Throttle
from runtime.live.transport.task_spec import Place

KINDS: frozenset[Kind] = OF_MEMBERS | {"cpu", "gpu", "bandwidth", "cut", "pause", "kill"}


class InjectorOwner(Protocol):
    """The injector's requests to the session."""

    def note(self, kind: str, /, **fields: object) -> None: ...

    def failed(self, reason: str) -> None:
        """The run cannot continue."""
        ...

    def hold(self, task: str, reason: str) -> None:
        """Kill a task and keep it from restarting."""
        ...

    def release(self, task: str) -> None: ...

    def operate(self, change: Literal["join", "leave"], worker: str) -> None:
        """Let a worker join or leave, as an operator does."""
        ...


NOBODY = DeviceUsers((), 0)
BEFORE_S = -inf
"""The time at which hosts get their own quota, which is not noted as a disturbance."""


class Injector:
    """``tell`` sends a message to the agent of a target, which answers each with one ``Actuated``, in order.

    Agents of several machines answer independently, so requests wait by target. ``users`` knows who computes on which
    GPU.
    """

    def __init__(
        self,
        schedule: Schedule,
        machines: HostMachines,
        loop: Loop,
        owner: InjectorOwner,
        tell: Callable[[str, Message], None],
        users: DeviceUsers = NOBODY,
    ) -> None:
        self.users = users
        self.paced: LinkPacing | None = None
        """The links of machines elsewhere; None: those of emulated hosts, if there are any."""
        self.machines, self.loop, self.owner, self.tell = machines, loop, owner, tell
        self.schedule = schedule
        self._changes = deque(schedule.changes(KINDS))
        self._waiting: dict[str, deque[Callable[[Actuated], None]]] = {}
        """What follows from the answer to each request to an agent that has none yet, by target."""
        self._levels: dict[tuple[str, Kind], float] = {}
        self._killed_by: dict[str, set[str]] = {}
        """Targets whose windows keep a task from starting: itself, its host, or both."""

    def prepare(self) -> None:
        """Set the quotas of hosts that the agent enforces; called before the job starts."""
        if self.machines.mechanisms.host_quotas == "duty" and self.machines.hosts is not None:
            for host in self.machines.hosts.hosts:
                if host.cores is not None:
                    self._ask(Change(BEFORE_S, f"host:{host.number}", "cpu", 1.0), "duty")

    def start(self) -> None:
        self._next()

    def _next(self) -> None:
        while self._changes and self._changes[0].t <= self.loop.now:
            self._carry_out(self._changes.popleft())
        if self._changes:
            self.loop.at(self._changes[0].t, self._next)

    def level(self, target: str) -> float:
        """The part of its cores that the plan leaves a target now."""
        return self._levels.get((target, "cpu"), RULES["cpu"].neutral)

    def admitted(self, task: str) -> None:
        """A task has another place, or its first: on a host that is killed, it waits for the end of that."""
        host = self.machines.host_of(task)
        if host is not None and self._levels.get((host, "kill"), 0.0) > 0:
            self._keep_away(task, host)

    def moved(self, target: str, to: int | None = None) -> Place | None:
        """A task moves to another machine (``to``: its host's number): disturbances of the old one do not follow."""
        killed = [target_of(name) for (name, kind), level in self._levels.items() if kind == "kill" and level > 0]
        place = self.machines.move(target, to, [one.number for one in killed if one.form == "host"])
        if place is not None:
            self.owner.note("Moved", task=target, host=place.host)
        if self.schedule.moved(target, self.loop.now):
            self._leave_behind(target)
        self.admitted(target)
        return place

    def awaits(self, target: str) -> bool:
        """Whether the agent of a target has not answered yet, limits its cores, or keeps it stopped."""
        kinds: tuple[Kind, ...] = ("cpu", "pause")
        kept = any(self._levels.get((target, kind), RULES[kind].neutral) != RULES[kind].neutral for kind in kinds)
        return kept or bool(self._waiting.get(target))

    def _leave_behind(self, target: str) -> None:
        """What is due and not carried out yet remains so, but for what the target may leave behind."""
        now = self.loop.now
        kinds: tuple[Kind, ...] = ("cpu", "gpu", "pause")
        due = [one for one in self._changes if one.t <= now and (one.target != target or one.kind not in kinds)]
        self._changes = deque([*due, *(one for one in self.schedule.changes(KINDS) if one.t > now)])
        for kind in kinds:
            level = self.schedule.level(target, kind, now)
            if level != self._levels.get((target, kind), RULES[kind].neutral):
                self._carry_out(Change(now, target, kind, level))

    def stop(self) -> None:
        """Undo all disturbances, so that no process ends throttled or stopped."""
        self._changes.clear()
        for (target, kind), level in self._levels.items():
            neutral = RULES[kind].neutral
            if level != neutral and kind != "kill" and kind not in OF_MEMBERS:
                self._carry_out(Change(self.loop.now, target, kind, neutral))

    # ---- by kind -----------------------------------------------------------------------------------------------------

    def _carry_out(self, change: Change) -> None:
        self._levels[change.target, change.kind] = change.level
        begun_s = self.loop.now
        try:
            self._by_kind(change, begun_s)
        except (OSError, ValueError) as error:
            if is_full(error):  # an error of the record
                raise
            self.owner.failed(f"{change.kind} of {change.target} could not be injected: {error}")

    def _by_kind(self, change: Change, begun_s: float) -> None:
        match change.kind:
            case "cpu":
                self._throttle(change, begun_s)
            case "gpu":
                self._occupy(change, begun_s)
            case "bandwidth":
                self._slow_link(change, begun_s)
            case "cut":
                assert self.machines.network is not None
                self.machines.network.cut(target_of(change.target).number, change.level > 0)
                self._note(change, begun_s, "tc", change.level, change.level)
            case "pause":
                self._ask(change, "signal")
            case "kill":
                if change.level > 0:
                    for task in self.machines.tasks_on(change.target):
                        self._keep_away(task, change.target)
                else:
                    self._let_come(change.target)
                self._note(change, begun_s, "signal", change.level, change.level)
            case "join" | "leave" if change.level > 0:
                self.owner.operate(change.kind, change.target)
                self._note(change, begun_s, "operator", change.level, change.level)

    def _keep_away(self, task: str, target: str, reason: str = "killed by the plan") -> None:
        """Keep a task away as long as any window is open, its own or its host's."""
        self._killed_by.setdefault(task, set()).add(target)
        self.owner.hold(task, reason)

    def machine_lost(self, node: str, tasks: Iterable[str], reason: str) -> None:
        """Keep its tasks away, as long as no other machine has taken its place."""
        for task in tasks:
            self._keep_away(task, node, reason)

    def machine_back(self, node: str, tasks: Iterable[str]) -> None:
        """They may start, and what the plan does to them is done there, too."""
        self._let_come(node)
        kinds: tuple[Kind, ...] = ("cpu", "pause")
        for task in tasks:
            self._waiting.pop(task, None)
            for kind in kinds:
                level = self._levels.get((task, kind), RULES[kind].neutral)
                if level != RULES[kind].neutral:
                    self._carry_out(Change(self.loop.now, task, kind, level))

    def _let_come(self, target: str) -> None:
        """A window closes; whoever it held may have moved meanwhile."""
        for task, killers in self._killed_by.items():
            if target in killers:
                killers.discard(target)
                if not killers:
                    self.owner.release(task)

    def _throttle(self, change: Change, begun_s: float) -> None:
        by = self.machines.mechanisms.throttles
        if by != "cgroup":
            self._ask(change, by)
            return
        asked = self.machines.quota(change.target, change.level)
        achieved = self.machines.groups[change.target].set_cores(asked)
        self._note(change, begun_s, by, asked, achieved)

    def _occupy(self, change: Change, begun_s: float) -> None:
        """Let hogs leave what the plan leaves of every device that the target reaches."""
        targets = [target for target, kind in self._levels if kind == "gpu"]
        for device in self.users.devices_of(change.target):
            name = target_name("device", device)
            left = self.users.left(device, lambda target, kind: self._levels[target, kind], targets)
            self.tell(name, Occupy(target=name, taken_frac=1.0 - left))
            self._await(name, partial(self._done, change, begun_s, left))

    def _slow_link(self, change: Change, begun_s: float) -> None:
        if self.paced is None:
            self._note(change, begun_s, "tc", *self._set_rate(change))
        else:
            self.paced.change(change.target, change.level, lambda rate: self._link_paced(change, begun_s, rate))

    def _link_paced(self, change: Change, begun_s: float, rate: LinkRate) -> None:
        if rate.problem:
            self.owner.failed(f"bandwidth of {change.target} could not be injected: {rate.problem}")
        self._note(change, begun_s, "pacing", rate.asked, rate.achieved)

    def _set_rate(self, change: Change) -> tuple[float | None, float | None]:
        """Bytes per second on the wire: requested and achieved."""
        machines = self.machines
        assert machines.network is not None
        assert machines.hosts is not None
        sender, *receivers = target_of(change.target).ids
        full = machines.hosts.hosts[sender].link_bytes_per_s
        assert full is not None
        if receivers:
            asked = None if change.level == 1.0 else full * change.level
            return asked, machines.network.set_peer_rate(sender, receivers[0], asked)
        return full * change.level, machines.network.set_rate(sender, full * change.level)

    # ---- by the agent ------------------------------------------------------------------------------------------------

    def throttle(self, target: str, cores: float | None, by: str, then: Callable[[Actuated], None]) -> None:
        """Let the agent limit a target to so many cores (None: no limit), by ``duty`` or ``cpulimit``.

        ``then`` receives what is in effect. It is the only rule of the target, so the level of the plan is a part of
        it.
        """
        self.tell(target, Throttle(target=target, cores=cores, by=by))
        self._await(target, then)

    def _await(self, target: str, then: Callable[[Actuated], None]) -> None:
        self._waiting.setdefault(target, deque()).append(then)

    def _ask(self, change: Change, by: str) -> None:
        begun_s = self.loop.now
        if change.kind == "pause":
            self.tell(change.target, Freeze(target=change.target, on=change.level > 0))
            self._await(change.target, lambda message: self._done(change, begun_s, change.level, message))
        else:
            cores = self.machines.quota(change.target, change.level)
            self.throttle(change.target, cores, by, lambda message: self._done(change, begun_s, cores, message))

    def answered(self, message: Actuated) -> None:
        """Process an agent's answer to the oldest request for this target."""
        if message.kind == "gpu" and message.problem:
            self.owner.failed(f"gpu of {message.target} could not be injected: {message.problem}")
            return
        if not (waiting := self._waiting.get(message.target)):
            raise MalformedMessage(f"Actuated, of {message.target}, for which nothing was asked")
        waiting.popleft()(message)

    def _done(self, change: Change, begun_s: float, asked: float | None, message: Actuated) -> None:
        """Record what the agent has done about a change."""
        if message.problem:
            self.owner.failed(f"{change.kind} of {change.target} could not be injected: {message.problem}")
        if change.t != BEFORE_S:
            self._note(change, begun_s, message.by, asked, message.achieved, message.measured)

    def _note(
        self,
        change: Change,
        begun_s: float,
        by: str,
        asked: float | None,
        achieved: float | None,
        measured: float | None = None,
    ) -> None:
        self.owner.note(
            "Injected",
            target=change.target,
            kind=change.kind,
            level=change.level,
            by=by,
            asked=asked,
            achieved=achieved,
            late_s=begun_s - change.t,
            took_s=self.loop.now - begun_s,
            **({} if measured is None else {"measured": measured}),
        )
