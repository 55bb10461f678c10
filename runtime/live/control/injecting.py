"""Carries out the plan of a live run: every change of a level is sent to its actuator, and the result is recorded.

:mod:`runtime.core.disturbing` decides. Workers and servers sleep delays and slow-downs themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from injectors.plan import target_name, target_of
from injectors.schedule import Change, Schedule
from runtime.cluster.gpu_hogs import DeviceUsers
from runtime.core.disturbing import Action, Disturbances, Hold, Release, Share
from runtime.core.inputs import Operated
from runtime.errors import is_full
from runtime.live.control.link_pacing import LinkPacing, LinkRate
from runtime.live.machines.machines import HostMachines
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import Actuated, Freeze, MalformedMessage, Message, Occupy, Throttle
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.live.control.session import LiveSession

NOBODY = DeviceUsers((), 0)
BEFORE_S = -inf
"""The time at which hosts get their own quota, which is not noted as a disturbance."""


class Injector:
    """``tell`` sends a message to the agent of a target, which answers each with one ``Actuated``, in order.

    Agents of several machines answer independently, so requests wait by target. ``users`` knows the workers of each
    GPU. ``paced``: the links of machines elsewhere; None: the links of emulated hosts, if there are any.
    """

    def __init__(
        self,
        schedule: Schedule,
        machines: HostMachines,
        loop: Loop,
        session: LiveSession,
        tell: Callable[[str, Message], None],
        users: DeviceUsers = NOBODY,
        paced: LinkPacing | None = None,
    ) -> None:
        self.paced, self.machines, self.loop, self.session, self.tell = paced, machines, loop, session, tell
        self.plan = Disturbances(schedule, machines, users, self._act)
        self._waits_s = inf
        """Time of the change for which the loop was set last."""
        self._waiting: dict[str, deque[Callable[[Actuated], None]]] = {}
        """For each request that its agent has not answered yet: the callback for the answer, by target."""

    def prepare(self) -> None:
        """Set the quotas of hosts that the agent enforces; called before the job starts."""
        if self.machines.mechanisms.host_quotas == "duty" and self.machines.hosts is not None:
            for host in self.machines.hosts.hosts:
                if host.cores is not None:
                    self._ask(Change(BEFORE_S, f"host:{host.number}", "cpu", 1.0), "duty", self.loop.now)

    def start(self) -> None:
        """Make all changes that are due, and wait for the next one."""
        self.plan.advance(self.loop.now)
        if (next_s := self.plan.next_s) < inf and next_s != self._waits_s:
            self._waits_s = next_s
            self.loop.at(next_s, self.start)

    def stop(self) -> None:
        """Undo all disturbances, so that no process ends throttled or stopped."""
        self.plan.end(self.loop.now)

    def awaits(self, target: str) -> bool:
        """Whether the agent of a target has not answered yet, limits its cores, or keeps it stopped."""
        kept = self.plan.level(target, "cpu") < 1 or self.plan.level(target, "pause") > 0
        return kept or bool(self._waiting.get(target))

    def moved(self, target: str, to: int | None = None) -> Place | None:
        """A task moves to another machine (``to``: its host's number): disturbances of the old one do not follow."""
        place = self.machines.move(target, to, self.plan.dead_hosts)
        if place is not None:
            self.session.note("Moved", task=target, host=place.host)
        self.plan.moved(self.loop.now, target)
        self.plan.admitted(target, moved=True)
        self.start()
        return place

    def machine_back(self, node: str, tasks: list[str]) -> None:
        """They may start there, and the plan's disturbances of them take effect there, too."""
        for task in tasks:
            self._waiting.pop(task, None)
        self.plan.machine_back(self.loop.now, node, tasks)

    # ---- actions -----------------------------------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        match action:
            case Hold(task, reason):
                self.session.supervisor.hold(NodeId.parse(task), reason)
            case Release(task):
                self.session.supervisor.release(NodeId.parse(task))
            case Share(_, _, change) | (Change() as change):
                try:
                    self._inject(action, change, self.loop.now)
                except (OSError, ValueError) as error:
                    if is_full(error):  # an error of the record
                        raise
                    self.session.failed(f"{change.kind} of {change.target} could not be injected: {error}")

    def _inject(self, action: Change | Share, change: Change, begun_s: float) -> None:
        match action:
            case Share(device, left_frac):
                name = target_name("device", device)
                self.tell(name, Occupy(target=name, taken_frac=1.0 - left_frac))
                self._await(name, partial(self._on_done, change, begun_s, left_frac))
            case Change(_, _, "cpu"):
                self._throttle(change, begun_s)
            case Change(_, _, "bandwidth"):
                self._slow_link(change, begun_s)
            case Change(_, link, "cut", level):
                assert self.machines.network is not None
                self.machines.network.cut(target_of(link).number, level > 0)
                self._note(change, begun_s, "tc", level, level)
            case Change(_, _, "pause"):
                self._ask(change, "signal", begun_s)
            case Change(_, _, "kill", level):
                self._note(change, begun_s, "signal", level, level)
            case Change(_, worker, "join" | "leave" as kind, level):
                self.session.receive(Operated(kind, worker))
                self._note(change, begun_s, "operator", level, level)

    def _throttle(self, change: Change, begun_s: float) -> None:
        by = self.machines.mechanisms.throttles
        if by != "cgroup":
            self._ask(change, by, begun_s)
            return
        asked = self.machines.quota(change.target, change.level)
        achieved = self.machines.groups[change.target].set_cores(asked)
        self._note(change, begun_s, by, asked, achieved)

    def _slow_link(self, change: Change, begun_s: float) -> None:
        if self.paced is None:
            self._note(change, begun_s, "tc", *self._set_rate(change))
        else:
            self.paced.change(change.target, change.level, lambda rate: self._link_paced(change, begun_s, rate))

    def _link_paced(self, change: Change, begun_s: float, rate: LinkRate) -> None:
        if rate.problem:
            self.session.failed(f"bandwidth of {change.target} could not be injected: {rate.problem}")
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
        throttle = Throttle(target=target, cores=cores, by=by)
        if by == "cpulimit":
            throttle = replace(throttle, running_cores=self.machines.unlimited(target))
        self.tell(target, throttle)
        self._await(target, then)

    def _await(self, target: str, then: Callable[[Actuated], None]) -> None:
        self._waiting.setdefault(target, deque()).append(then)

    def _ask(self, change: Change, by: str, begun_s: float) -> None:
        if change.kind == "pause":
            self.tell(change.target, Freeze(target=change.target, on=change.level > 0))
            self._await(change.target, lambda message: self._on_done(change, begun_s, change.level, message))
        else:
            cores = self.machines.quota(change.target, change.level)
            self.throttle(change.target, cores, by, lambda message: self._on_done(change, begun_s, cores, message))

    def answered(self, message: Actuated) -> None:
        """Process an agent's answer to the oldest request for this target."""
        if message.kind == "gpu" and message.problem:
            self.session.failed(f"gpu of {message.target} could not be injected: {message.problem}")
            return
        if not (waiting := self._waiting.get(message.target)):
            raise MalformedMessage(f"Actuated, of {message.target}, for which nothing was asked")
        waiting.popleft()(message)

    def _on_done(self, change: Change, begun_s: float, asked: float | None, message: Actuated) -> None:
        """Record what the agent has done about a change."""
        if message.problem:
            self.session.failed(f"{change.kind} of {change.target} could not be injected: {message.problem}")
        if change.t != BEFORE_S:
            measured = {} if message.measured is None else {"measured": message.measured}
            self._note(change, begun_s, message.by, asked, message.achieved, **measured)

    def _note(self, change: Change, begun_s: float, by: str, *read: float | None, **more: float) -> None:
        """Record a change; ``read``: the level that was requested of the mechanism, and the level read back."""
        _, target, kind, level = change
        asked, achieved = read
        late_s, took_s = begun_s - change.t, self.loop.now - begun_s
        what = {"target": target, "kind": kind, "level": level, "by": by, "asked": asked, "achieved": achieved}
        self.session.note("Injected", **what, late_s=late_s, took_s=took_s, **more)
